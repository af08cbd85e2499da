#include "iscsi/stream_datamover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "wire/iscsi/data.h"
#include "wire/iscsi/nop.h"

namespace weft::iscsi {
namespace {

using wire::iscsi::NopOut;

/// Remembers what comes.
class Listener final : public DatamoverClient {
 public:
  void handle_pdu(const ReceivedPdu& pdu, Instant /*now*/) override {
    pdus.push_back(OutgoingPdu{
        pdu.as<NopOut>(), {pdu.data.begin(), pdu.data.end()}
    });
    damaged += pdu.data_is_damaged ? 1 : 0;
    additional.assign(pdu.additional_headers.begin(), pdu.additional_headers.end());
  }
  void handle_data_fetched(std::uint32_t /*tag*/, Instant /*now*/) override {}
  void handle_lost(std::string_view /*reason*/, Instant /*now*/) override {}

  std::vector<OutgoingPdu> pdus;
  std::vector<std::byte> additional;
  int damaged{};
};

[[nodiscard]] OutgoingPdu ping(std::uint32_t tag, std::size_t bytes) {
  NopOut nop;
  nop.initiator_task_tag = tag;
  return OutgoingPdu{nop, std::vector<std::byte>(bytes, static_cast<std::byte>(tag))};
}

/// All that waits, taken `at_once` octets at a time.
[[nodiscard]] std::vector<std::byte> drain(StreamDatamover& from, std::size_t at_once = 1 << 20) {
  std::vector<std::byte> all;
  std::array<ByteSpan, 7> pieces;
  while (const std::size_t count = from.gather(pieces)) {
    std::size_t left = at_once;
    for (const ByteSpan piece : std::span{pieces}.first(count)) {
      const ByteSpan part = piece.first(std::min(left, piece.size()));
      all.insert(all.end(), part.begin(), part.end());
      left -= part.size();
    }
    from.consume(at_once - left);
  }
  EXPECT_EQ(from.output_bytes(), 0U);
  return all;
}

struct Pair {
  Pair(bool header_digest = false, bool data_digest = false) {
    receiver.set_client(listener);
    sender.enable(header_digest, data_digest, 8192);
    receiver.enable(header_digest, data_digest, 8192);
  }
  Listener listener;
  StreamDatamover sender;
  StreamDatamover receiver;
};

TEST(StreamDatamover, CarriesPdusHoweverTheStreamIsCut) {
  for (const auto [header_digest, data_digest] : {
           std::pair{false, false},
           {true,  false},
           {false, true },
           {true,  true }
  }) {
    for (const std::size_t cut : {1U, 3U, 47U, 49U, 4096U}) {
      Pair pair{header_digest, data_digest};
      for (std::uint32_t tag = 0; tag < 9; ++tag) {
        pair.sender.send_control(ping(tag, tag * tag * 7));
      }
      const std::vector<std::byte> stream = drain(pair.sender, cut);
      for (ByteSpan rest = stream; !rest.empty();) {
        const ByteSpan part = rest.first(std::min(cut, rest.size()));
        pair.receiver.receive(part, {});
        rest = rest.subspan(part.size());
      }
      ASSERT_EQ(pair.listener.pdus.size(), 9U);
      for (std::uint32_t tag = 0; tag < 9; ++tag) {
        const OutgoingPdu& pdu = pair.listener.pdus[tag];
        EXPECT_EQ(pdu.as<NopOut>().initiator_task_tag, tag);
        EXPECT_EQ(pdu.data().size(), tag * tag * 7);
        EXPECT_EQ(std::ranges::count(pdu.data(), static_cast<std::byte>(tag)), tag * tag * 7);
      }
      EXPECT_EQ(pair.listener.damaged, 0);
      EXPECT_FALSE(pair.receiver.is_ended());
    }
  }
}

TEST(StreamDatamover, CarriesAdditionalHeaders) {
  Pair pair{true, true};
  OutgoingPdu pdu = ping(1, 5);
  pdu.set_additional_headers(std::vector<std::byte>(12, std::byte{7}));
  pair.sender.send_control(std::move(pdu));
  pair.receiver.receive(drain(pair.sender), {});
  EXPECT_EQ(pair.listener.additional, std::vector<std::byte>(12, std::byte{7}));
  ASSERT_EQ(pair.listener.pdus.size(), 1U);
  EXPECT_EQ(pair.listener.pdus[0].data().size(), 5U);
}

TEST(StreamDatamover, FindsEveryDamagedBit) {  // RFC 7143 §7.7, §7.8
  Pair source{true, true};
  source.sender.send_control(ping(1, 6));
  const std::vector<std::byte> stream = drain(source.sender);
  for (std::size_t bit = 0; bit < stream.size() * 8; ++bit) {
    Pair pair{true, true};
    std::vector<std::byte> damaged = stream;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    pair.receiver.receive(damaged, {});
    pair.receiver.receive(std::vector<std::byte>(2048), {});
    const bool in_header = bit / 8 < 52;
    EXPECT_EQ(pair.listener.damaged, in_header ? 0 : 1) << bit;
    EXPECT_TRUE(!in_header || pair.listener.pdus.empty()) << bit;
  }
}

TEST(StreamDatamover, EndsAtADataSegmentThatIsTooLong) {
  Pair pair;
  pair.sender.send_control(ping(1, 8192));
  pair.sender.send_control(ping(2, 8193));
  pair.receiver.receive(drain(pair.sender), {});
  EXPECT_EQ(pair.listener.pdus.size(), 1U);
  EXPECT_TRUE(pair.receiver.is_ended());
  EXPECT_EQ(pair.receiver.reason(), "a data segment is longer than MaxRecvDataSegmentLength");
}

TEST(StreamDatamover, SendsWhatWaitsBeforeTheEndUnlessItIsAtOnce) {
  Pair pair;
  pair.sender.send_control(ping(1, 1));
  pair.sender.terminate(Datamover::Ending::AfterOutput, "logout");
  pair.sender.send_control(ping(2, 1));
  EXPECT_EQ(drain(pair.sender).size(), 52U);
  pair.receiver.send_control(ping(1, 1));
  pair.receiver.terminate(Datamover::Ending::AtOnce, "reset");
  EXPECT_EQ(drain(pair.receiver).size(), 0U);
  EXPECT_EQ(pair.receiver.reason(), "reset");
}

TEST(StreamDatamover, SharesTheDataOfPdus) {
  Pair pair;
  const SharedBuffer buffer{64};
  std::ranges::fill(buffer.octets(), std::byte{3});
  pair.sender.put_data(OutgoingPdu{wire::iscsi::DataIn{}, buffer.part(8, 16)});
  std::array<ByteSpan, 8> pieces;
  ASSERT_EQ(pair.sender.gather(pieces), 2U);
  EXPECT_EQ(pieces[1].data(), buffer.octets().data() + 8);
  EXPECT_EQ(pieces[1].size(), 16U);
}

}  // namespace
}  // namespace weft::iscsi
