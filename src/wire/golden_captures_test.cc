#include "wire/testing/golden_captures.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>

#include "base/testing/golden.h"
#include "wire/roce_packet.h"

namespace weft::wire {

namespace {

std::vector<std::string> captures_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".pcap") {
      files.push_back(entry.path().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<std::string> golden_captures() { return captures_in(weft::testing::golden("pcaps")); }

std::vector<std::vector<std::byte>> golden_management_packets() {
  constexpr std::size_t kErfHeaderBytes = 16;
  std::vector<std::vector<std::byte>> packets;
  for (const auto& file : captures_in(weft::testing::golden("management"))) {
    for_each_frame(file, [&](ByteSpan record) {
      const ByteSpan packet = record.subspan(kErfHeaderBytes);
      packets.emplace_back(packet.begin(), packet.end());
    });
  }
  return packets;
}

bool for_each_frame(const std::string& path, const std::function<void(ByteSpan)>& visit) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  pcap_t* const capture = pcap_open_offline(path.c_str(), error.data());
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

namespace {

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

}  // namespace
}  // namespace weft::wire
