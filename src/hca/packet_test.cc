#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "hca/packet_record.h"
#include "hca/packet_wire.h"
#include "hca/testing/loopback_pair.h"
#include "hca/train.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;

/// All packets of an RC conversation with mixed operations, as trains.
std::vector<InFlightPacket> conversation(std::uint32_t train_bytes) {
  LoopbackPair pair{{.train_bytes = train_bytes}};
  pair.connect();
  const std::array receive{pair.b().sge(0x4000, 4000)};
  const std::array sges{pair.a().sge(0, 3333)};
  const std::array word{pair.a().sge(0x4000, 8)};
  for (const WrOpcode opcode :
       {WrOpcode::Send, WrOpcode::SendWithImmediate, WrOpcode::RdmaWrite,
        WrOpcode::RdmaWriteWithImmediate, WrOpcode::RdmaRead, WrOpcode::FetchAdd}) {
    EXPECT_TRUE(pair.b().qp->post_recv({.wr_id = 1, .sges = receive}));
    SendWr wr;
    wr.opcode = opcode;
    wr.flags = Flags{Send::Signaled} | Send::Solicited;
    wr.sges =
        opcode == WrOpcode::FetchAdd ? std::span<const Sge>{word} : std::span<const Sge>{sges};
    wr.immediate = 0x12345678;
    wr.remote_address = pair.b().address(0);
    wr.rkey = pair.b().region->rkey;
    EXPECT_TRUE(pair.a().qp->post_send(wr));
    EXPECT_TRUE(pair.run());
  }
  return pair.sent;
}

std::vector<std::vector<std::byte>> wire_packets(const std::vector<InFlightPacket>& flights) {
  std::vector<std::vector<std::byte>> packets;
  for (const InFlightPacket& in_flight_packet : flights) {
    for (std::uint32_t i = 0; i < in_flight_packet.header.packet_count; ++i) {
      to_wire(single_of_train(in_flight_packet.packet(), i), packets.emplace_back());
    }
  }
  return packets;
}

std::vector<std::vector<std::byte>> requests_only(
    const std::vector<std::vector<std::byte>>& packets) {
  std::vector<std::vector<std::byte>> kept;
  std::ranges::copy_if(packets, std::back_inserter(kept), [](const auto& bytes) {
    const auto packet = from_wire(bytes);
    return packet &&
           wire::opcode_info(packet->header.opcode)->operation != wire::Operation::Acknowledge;
  });
  return kept;
}

TEST(Train, EqualsItsSinglePackets) {  // docs/ARCHITECTURE.md, decision 2
  // Except for how often acknowledgements are requested and sent, the packets on the wire are the
  // same.
  auto singles = requests_only(wire_packets(conversation(0)));
  auto trains = requests_only(wire_packets(conversation(2048)));
  EXPECT_EQ(singles.size(), trains.size());
  EXPECT_EQ(singles, trains);
}

TEST(PacketWire, RoundTrips) {
  for (const auto& bytes : wire_packets(conversation(1024))) {
    const auto packet = from_wire(bytes);
    ASSERT_TRUE(packet) << packet.error().reason;
    std::vector<std::byte> again;
    to_wire(*packet, again);
    EXPECT_EQ(again, bytes);
  }
}

std::vector<std::byte> record_of(const InFlightPacket& in_flight_packet) {
  std::array<std::byte, kMaxRecordHeaderBytes> header{};
  const std::size_t bytes = encode_record_header(in_flight_packet.header, header);
  std::vector<std::byte> record(header.begin(),
                                header.begin() + static_cast<std::ptrdiff_t>(bytes));
  record.insert(record.end(), in_flight_packet.payload.begin(), in_flight_packet.payload.end());
  return record;
}

TEST(PacketRecord, RoundTripsTrainsAndSinglePackets) {
  for (const InFlightPacket& in_flight_packet : conversation(1024)) {
    const std::vector<std::byte> record = record_of(in_flight_packet);
    const auto packet = decode_record(record);
    ASSERT_TRUE(packet) << packet.error().reason;
    ASSERT_EQ(packet->header.packet_count, in_flight_packet.header.packet_count);
    EXPECT_TRUE(std::ranges::equal(packet->payload, in_flight_packet.payload));
    std::vector<std::byte> sent;
    std::vector<std::byte> received;
    for (std::uint32_t i = 0; i < packet->header.packet_count; ++i) {
      to_wire(single_of_train(in_flight_packet.packet(), i), sent);
      to_wire(single_of_train(*packet, i), received);
      EXPECT_EQ(sent, received);
    }
  }
}

TEST(PacketRecord, KeepsSmallMessagesInOneCacheLine) {
  PacketHeader send;
  send.opcode = send.last_opcode = wire::Opcode::RcSendOnly;
  PacketHeader write = send;
  write.opcode = write.last_opcode = wire::Opcode::RcRdmaWriteOnly;
  std::array<std::byte, kMaxRecordHeaderBytes> out{};
  EXPECT_LE(encode_record_header(send, out) + 8,
            56U);  // the ring's own record header takes 8 of 64
  EXPECT_LE(encode_record_header(write, out) + 8, 56U);
}

TEST(PacketRecord, RefusesLiesAndSurvivesDamage) {
  Random random{5};
  Packet quick;
  Packet general;
  for (const InFlightPacket& in_flight_packet : conversation(1024)) {
    const std::vector<std::byte> record = record_of(in_flight_packet);
    EXPECT_FALSE(decode_record(std::span{record}.first(10)));
    for (int i = 0; i < 200; ++i) {
      std::vector<std::byte> damaged = record;
      damaged[random.below(std::min<std::size_t>(damaged.size(), 48))] =
          static_cast<std::byte>(random());
      EXPECT_EQ(read_record(damaged, quick), internal::read_any_record(damaged, general));
      damaged.resize(damaged.size() - random.below(std::min<std::size_t>(damaged.size(), 8)));
      if (const auto packet = decode_record(damaged)) {
        std::vector<std::byte> bytes;
        for (std::uint32_t k = 0; k < packet->header.packet_count; ++k) {
          to_wire(single_of_train(*packet, k), bytes);  // every accepted record has a wire form
        }
      }
    }
  }
  std::vector<std::byte> zero_count = record_of(conversation(0).front());
  zero_count[4] = zero_count[5] = std::byte{0};
  EXPECT_FALSE(decode_record(zero_count));
}

/// A record starts with the header's first words as they lie in memory, and its reader refuses
/// undefined bits.
TEST(PacketHeader, HasNoBitsThatNobodySet) {
  alignas(PacketHeader) std::array<std::byte, sizeof(PacketHeader)> memory{};
  memory.fill(std::byte{0xFF});
  // Default-initialised, like `PacketHeader header;` on a used stack; std::construct_at() would
  // zero it.
  static_cast<void>(new (memory.data()) PacketHeader);
  constexpr std::size_t kFlagsAt = 2;
  EXPECT_EQ(memory[kFlagsAt], std::byte{1} << 2) << "but the flag of a path that migrated";
}

}  // namespace
}  // namespace weft::hca
