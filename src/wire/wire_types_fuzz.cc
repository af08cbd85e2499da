// Foreign bytes as every structure: what they mean packs to bytes that mean the same, and packing
// again changes nothing.

#include <cstdint>
#include <cstdlib>

#include "wire/wire_types.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft::wire;  // NOLINT(google-build-using-namespace): the whole subject
  const auto input = std::as_bytes(std::span{data, size});
  AllWireTypes::for_each([input]<class T>() {
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
  });
  return 0;
}
