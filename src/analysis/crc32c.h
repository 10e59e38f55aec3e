// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), the checksum of TensorBoard's event files.
#pragma once

#include <cstdint>
#include <string_view>

namespace heddle {

/// Of "123456789": 0xE3069283.
uint32_t crc32c(std::string_view bytes);

}  // namespace heddle
