#include "kernels/narrow_reals.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "kernels/entries.h"
#include "kernels/shared_memory.h"

namespace heddle::test {

float rounded(float x) {
  if (std::isnan(x)) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U);
}

namespace {

/// Copies of the blocks that a call names, by their start.
class Copies {
 public:
  virtual ~Copies() = default;

  Reals replace(const Reals& x, bool written) {
    if (x.data == nullptr) return x;
    const SharedBlock block = shared_block(x.data);
    const int64_t first = static_cast<float*>(x.data) - static_cast<float*>(block.begin);
    const auto [found, fresh] = copies_.try_emplace(static_cast<float*>(block.begin));
    Copy& copy = found->second;
    if (fresh) {
      copy.count = block.bytes / sizeof(float);
      fill(copy, found->first);
    }
    copy.written = copy.written || written;
    return at(copy).at(first);
  }

  void bring_back() {
    for (auto& [original, copy] : copies_) {
      if (!copy.written) continue;
      for (size_t i = 0; i < copy.count; ++i) original[i] = read(copy, i);
    }
  }

 protected:
  struct Copy {
    Array<float> floats;
    Array<uint16_t> halves;
    size_t count = 0;
    bool written = false;
  };
  virtual void fill(Copy& copy, const float* original) const = 0;
  virtual Reals at(Copy& copy) const = 0;
  virtual float read(const Copy& copy, size_t i) const = 0;

 private:
  std::map<float*, Copy> copies_;
};

class RoundedCopies final : public Copies {
  void fill(Copy& copy, const float* original) const override {
    for (size_t i = 0; i < copy.count; ++i) copy.floats.push_back(rounded(original[i]));
  }
  Reals at(Copy& copy) const override { return copy.floats.data(); }
  float read(const Copy& copy, size_t i) const override { return rounded(copy.floats[i]); }
};

#ifdef HEDDLE_WITH_CUDA
class NarrowCopies final : public Copies {
  void fill(Copy& copy, const float* original) const override {
    for (size_t i = 0; i < copy.count; ++i)
      copy.halves.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded(original[i])) >> 16));
  }
  Reals at(Copy& copy) const override { return {copy.halves.data(), RealType::kBfloat16}; }
  float read(const Copy& copy, size_t i) const override {
    return std::bit_cast<float>(static_cast<uint32_t>(copy.halves[i]) << 16);
  }
};
#endif

/// Arguments of the inner call.
template <typename T>
const T& replaced(Copies&, const T& argument) {
  return argument;
}
inline Reals replaced(Copies& copies, const Reals& x) {
  return copies.replace(x, true);
}
inline ConstReals replaced(Copies& copies, const ConstReals& x) {
  return copies.replace(Reals(const_cast<void*>(x.data), x.type), false);
}
inline RealsGradient replaced(Copies& copies, const RealsGradient& x) {
  return {copies.replace(x.data, true), x.accumulate};
}

template <const Kernels& (*kTable)(), typename CopiesOf, auto kMember, typename Function>
struct Replacing;
template <const Kernels& (*kTable)(), typename CopiesOf, auto kMember, typename Result, typename... Arguments>
struct Replacing<kTable, CopiesOf, kMember, Result(Arguments...)> {
  static Result call(Arguments... arguments) {
    CopiesOf copies;
    struct BringBack {
      Copies& copies;
      ~BringBack() { copies.bring_back(); }
    };
    const BringBack after{copies};
    return (kTable().*kMember)(replaced(copies, arguments)...);
  }
};

template <const Kernels& (*kTable)(), typename CopiesOf, auto kMember, typename Function>
void set(Function*& entry) {
  entry = Replacing<kTable, CopiesOf, kMember, Function>::call;
}

/// The list of vectors is an argument that the general rule does not see.
template <const Kernels& (*kTable)(), typename CopiesOf>
void weighted_sum(int64_t count, int64_t terms, ConstReals base, const float* weights, const ConstReals* xs,
                  Reals out) {
  CopiesOf copies;
  std::vector<ConstReals> list;
  for (int64_t k = 0; k < terms; ++k) list.push_back(replaced(copies, xs[k]));
  kTable().weighted_sum_forward(count, terms, replaced(copies, base), weights, list.data(), replaced(copies, out));
  copies.bring_back();
}

template <const Kernels& (*kTable)(), typename CopiesOf>
Kernels table(const char* name) {
  Kernels t{};
  t.name = name;
  for_each_kernel([&](auto entry) { set<kTable, CopiesOf, decltype(entry)::kPointer>(t.*entry.kPointer); });
  t.weighted_sum_forward = weighted_sum<kTable, CopiesOf>;
  t.attention_workspace = kTable().attention_workspace;
  return t;
}

}  // namespace

const Kernels& rounded_reference() {
  static const Kernels kernels = table<ref::kernels, RoundedCopies>("rounded_reference");
  return kernels;
}

#ifdef HEDDLE_WITH_CUDA
const Kernels& narrow_cuda() {
  static const Kernels kernels = table<cuda::waiting_kernels, NarrowCopies>("narrow_cuda");
  return kernels;
}
#endif

}  // namespace heddle::test
