#include "hca/wire_length.h"

#include <gtest/gtest.h>

#include <vector>

#include "hca/packet_wire.h"
#include "hca/train.h"

namespace weft::hca {
namespace {

constexpr std::size_t kVcrcBytes = 2;

void expect_the_bytes_of_the_wire(PacketHeader header, std::size_t payload_bytes) {
  const std::vector<std::byte> payload(payload_bytes);
  const Packet train{header, payload};
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < header.packet_count; ++i) {
    std::vector<std::byte> out;
    to_wire(single_of_train(train, i), out);
    bytes += out.size() - kVcrcBytes;
  }
  EXPECT_EQ(packet_length_words(header, payload_bytes) * 4, bytes);
}

TEST(PacketLength, IsThatOfTheWireForm) {
  for (const bool has_grh : {false, true}) {
    for (const std::size_t bytes : {1U, 4U, 63U, 1024U}) {
      PacketHeader header;
      header.opcode = header.last_opcode = wire::Opcode::RcRdmaWriteOnly;
      header.has_grh = has_grh;
      header.path_mtu_bytes = 1024;
      expect_the_bytes_of_the_wire(header, bytes);
      header.opcode = header.last_opcode = wire::Opcode::UdSendOnlyWithImmediate;
      expect_the_bytes_of_the_wire(header, bytes);
      header.opcode = wire::Opcode::RcSendFirst;
      header.last_opcode = wire::Opcode::RcSendLastWithImmediate;
      header.packet_count = 4;
      expect_the_bytes_of_the_wire(header, 3 * 1024 + bytes);
      header.opcode = wire::Opcode::RcRdmaReadResponseFirst;
      header.last_opcode = wire::Opcode::RcRdmaReadResponseLast;
      expect_the_bytes_of_the_wire(header, 3 * 1024 + bytes);
    }
  }
}

}  // namespace
}  // namespace weft::hca
