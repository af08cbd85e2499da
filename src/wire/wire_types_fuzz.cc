// Arbitrary bytes as each structure. Checks that unpacked values pack to bytes with the same
// meaning, and that packing is stable.

#include <cstdint>
#include <cstdlib>

#include "base/bytes.h"
#include "wire/wire_types.h"

namespace weft::wire {
namespace {

template <WireType T>
void use(ByteSpan input) {
  const auto value = parse<T>(input);
  if (value.has_value() != (input.size() >= kSizeOf<T>)) {
    std::abort();
  }
  if (!value) {
    return;
  }
  const auto packed = pack(*value);
  const T again = unpack<T>(packed);
  if (again != *value || pack(again) != packed) {
    std::abort();
  }
}

}  // namespace
}  // namespace weft::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const weft::ByteSpan input = std::as_bytes(std::span{data, size});
  weft::wire::AllWireTypes::for_each([input]<class T>() { weft::wire::use<T>(input); });
  return 0;
}
