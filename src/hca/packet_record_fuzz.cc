#include <cstdlib>

#include "hca/packet_record.h"
#include "hca/packet_wire.h"
#include "hca/train.h"

/// Whatever a record says, decoding it is safe, and what is accepted can be taken apart into
/// packets that have wire forms.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const auto packet = weft::hca::decode_record(std::as_bytes(std::span{data, size}));
  if (packet) {
    std::vector<std::byte> bytes;
    for (std::uint32_t i = 0; i < packet->header.packet_count; ++i) {
      weft::hca::to_wire(weft::hca::single_of_train(*packet, i), bytes);
    }
  }
  return 0;
}
