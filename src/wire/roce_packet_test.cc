#include "wire/roce_packet.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>

namespace weft::wire {
namespace {

/// Calls visit(frame) for each record of a capture; false when it cannot be opened.
template <class Visit>
bool for_each_frame(const std::filesystem::path& file, Visit visit) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  pcap_t* capture = pcap_open_offline(file.c_str(), error.data());
  if (capture == nullptr) {
    return false;
  }
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  while (pcap_next_ex(capture, &header, &data) == 1) {
    visit(std::as_bytes(std::span{data, header->caplen}));
  }
  pcap_close(capture);
  return true;
}

std::vector<std::filesystem::path> golden_captures() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_GOLDEN_PCAPS)) {
    if (entry.path().extension() == ".pcap") {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

class Golden : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(Golden, EveryRocePacketUnpacksHasTheRightIcrcAndPacksToTheSameBytes) {
  std::size_t packets = 0;
  std::vector<std::byte> bytes;
  ASSERT_TRUE(for_each_frame(GetParam(), [&](std::span<const std::byte> frame) {
    if (!is_roce_v2(frame)) {
      return;
    }
    ++packets;
    const auto packet = parse_roce_packet(frame, CrcCheck::Verify);
    ASSERT_TRUE(packet) << "packet " << packets << ": " << packet.error().reason;
    if (const Ipv4* ip = std::get_if<Ipv4>(&packet->ip)) {
      EXPECT_EQ(ipv4_checksum(*ip), ip->checksum);
    }
    serialise(*packet, bytes);
    // Short frames are padded by Ethernet; the packet ends where UDP says.
    ASSERT_LE(bytes.size(), frame.size());
    EXPECT_TRUE(std::ranges::equal(bytes, frame.first(bytes.size()))) << "packet " << packets;
  }));
  EXPECT_GT(packets, 0U);
}

INSTANTIATE_TEST_SUITE_P(Captures, Golden, ::testing::ValuesIn(golden_captures()),
                         [](const auto& test) { return test.param.stem().string(); });

TEST(GoldenSet, HoldsEveryKindOfRcPacket) {
  std::set<Opcode> seen;
  for (const auto& file : golden_captures()) {
    for_each_frame(file, [&](std::span<const std::byte> frame) {
      if (const auto packet = parse_roce_packet(frame, CrcCheck::Skip)) {
        seen.insert(packet->transport.bth.opcode);
      }
    });
  }
  for (const Opcode opcode :
       {Opcode::RcSendFirst, Opcode::RcSendMiddle, Opcode::RcSendLast, Opcode::RcSendOnly,
        Opcode::RcRdmaWriteFirst, Opcode::RcRdmaWriteOnlyWithImmediate, Opcode::RcRdmaReadRequest,
        Opcode::RcRdmaReadResponseMiddle, Opcode::RcAcknowledge, Opcode::RcAtomicAcknowledge,
        Opcode::RcCompareSwap, Opcode::RcFetchAdd, Opcode::UcSendMiddle, Opcode::UdSendOnly,
        Opcode::UdSendOnlyWithImmediate}) {
    EXPECT_TRUE(seen.contains(opcode)) << opcode_info(opcode)->name;
  }
}

TEST(RocePacket, RefusesAWrongIcrc) {
  bool tried = false;
  for_each_frame(golden_captures().front(), [&](std::span<const std::byte> frame) {
    if (tried || !is_roce_v2(frame)) {
      return;
    }
    tried = true;
    std::vector<std::byte> damaged(frame.begin(), frame.end());
    damaged[60] ^= std::byte{1};
    EXPECT_FALSE(parse_roce_packet(damaged, CrcCheck::Verify));
  });
  EXPECT_TRUE(tried);
}

}  // namespace
}  // namespace weft::wire
