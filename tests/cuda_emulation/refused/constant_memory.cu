// Refused: what a kernel needs comes as an argument.
#include "cuda/device.cuh"

__constant__ float factor;
