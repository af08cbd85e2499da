// Two ends of a stream over a connection in memory: writes land in the other end's memory, in
// order, when the test says so, and are complete then.

#include "ulp/rsocket/stream_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <deque>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/random.h"
#include "ulp/rsocket/native_order.h"

namespace weft::rsockets {
namespace {

constexpr std::uint32_t kKey = 0x77;

class End {
 public:
  End(std::uint64_t base, StreamSizes wish) : sizes_(fitted(wish, 1'000)), base_(base) {
    send_.resize(sizes_.send_bytes);
    receive_.resize(sizes_.receive_bytes);
    targets_.resize(targets_bytes(sizes_));
    program_.resize(256);
    engine.open(sizes_, {.octets = send_, .address = 0, .key = 0},
                {.octets = receive_, .address = base_, .key = kKey},
                {.octets = targets_, .address = base_ + kApart, .key = kKey});
  }

  void post(const StreamWrite& write) {
    ASSERT_TRUE(write.is_held || write.octets.size() <= sizes_.inline_bytes);
    Posted posted{.write = write, .copy = {}};
    if (!write.is_held) {  // the device takes it now
      posted.copy.assign(write.octets.begin(), write.octets.end());
    }
    wire_.push_back(std::move(posted));
    ASSERT_LE(wire_.size(), sizes_.send_depth);
  }
  void grant() {
    if (const auto write = engine.grant()) {
      post(*write);
    }
  }
  bool has_under_way() const { return !wire_.empty(); }
  /// The oldest write arrives, and is complete.
  void deliver_to(End& other) {
    const Posted posted = std::move(wire_.front());
    wire_.pop_front();
    const ByteSpan octets = posted.write.is_held ? posted.write.octets : ByteSpan{posted.copy};
    if (!octets.empty()) {
      EXPECT_EQ(posted.write.key, kKey);
      const auto place = other.at(posted.write.address, octets.size());
      ASSERT_EQ(place.size(), octets.size()) << "outside of what the other end has";
      std::ranges::copy(octets, place.begin());
    }
    if (posted.write.message) {
      ++other.messages;
      EXPECT_TRUE(other.engine.take_message(*posted.write.message));
    }
    engine.take_sent(posted.write.id);
  }
  /// What the peer says where to write to.
  std::span<std::byte> targets() { return targets_; }
  /// What the program may map.
  std::span<std::byte> program() { return program_; }
  std::uint64_t program_address() const { return base_ + 2 * kApart; }
  /// All that it may, as one call; how much went.
  std::size_t write(ByteSpan octets) {
    std::uint32_t wish = kFirstPiece;
    std::size_t done = 0;
    while (done < octets.size() && engine.may_send()) {
      const StreamWrite write = engine.write(octets.subspan(done), wish);
      post(write);
      ++sent;
      done += write.octets.size();
    }
    return done;
  }

  StreamEngine engine;
  std::size_t messages{};  // that came
  std::size_t sent{};      // messages with data

 private:
  static constexpr std::uint64_t kApart = 0x1'0000'0000;
  struct Posted {
    StreamWrite write;
    std::vector<std::byte> copy;
  };
  std::span<std::byte> at(std::uint64_t address, std::size_t bytes) {
    const std::uint64_t from = (address - base_) % kApart;
    auto& memory = address < base_ + kApart       ? receive_
                   : address < base_ + 2 * kApart ? targets_
                                                  : program_;
    return from + bytes <= memory.size() ? std::span{memory}.subspan(from, bytes)
                                         : std::span<std::byte>{};
  }

  StreamSizes sizes_;
  std::uint64_t base_;
  std::vector<std::byte> send_;
  std::vector<std::byte> receive_;
  std::vector<std::byte> targets_;
  std::vector<std::byte> program_;
  std::deque<Posted> wire_;
};

constexpr StreamSizes kSmall{.send_depth = 24,
                             .receive_depth = 16,
                             .inline_bytes = 64,
                             .send_bytes = 6'000,
                             .receive_bytes = 4'096,
                             .io_map_entries = 4};

class StreamEnds : public ::testing::Test {
 protected:
  StreamEnds() : StreamEnds(kSmall, kSmall) {}
  StreamEnds(const StreamSizes& sizes_of_a, const StreamSizes& sizes_of_b)
      : a(0x10'0000'0000, sizes_of_a), b(0x20'0000'0000, sizes_of_b) {
    EXPECT_TRUE(b.engine.take_data(wire::pack(a.engine.own_data())));
    EXPECT_TRUE(a.engine.take_data(wire::pack(b.engine.own_data())));
    for (End* const each : {&a, &b}) {
      each->engine.connect();
      each->grant();
    }
  }
  /// Everything that is under way arrives; grants are not made.
  void deliver_all() {
    while (a.has_under_way() || b.has_under_way()) {
      if (a.has_under_way()) {
        a.deliver_to(b);
      } else {
        b.deliver_to(a);
      }
    }
  }

  End a;
  End b;
};

/// As an adapter places a WRITE while the program looks: the last bytes last, and at once.
void place_target(std::span<std::byte> slot, const Target& target) {
  const auto octets = pack_native(target);
  std::array<std::byte, sizeof(std::uint64_t)> last{};
  const auto body = std::span{octets}.first<octets.size() - last.size()>();
  std::ranges::copy(std::span{octets}.last<last.size()>(), last.begin());
  std::ranges::copy(body, slot.begin());
  void* const place = slot.subspan(body.size()).data();
  std::atomic_ref<std::uint64_t>{*static_cast<std::uint64_t*>(place)}.store(
      std::bit_cast<std::uint64_t>(last), std::memory_order_release);
}

TEST_F(StreamEnds, ATargetIsTakenWhenItIsThereAsAWhole) {
  deliver_all();
  a.write(std::vector<std::byte>(2 * kSmall.receive_bytes));
  deliver_all();
  ASSERT_FALSE(a.engine.may_send()) << "both halves are full";
  constexpr std::uint16_t kTimes = 2'000;
  std::atomic<std::uint16_t> wanted{};
  const auto target_of = [](std::uint16_t number) {
    return Target{.address = 0x1'0000'0000U + number, .key = kKey, .length = 1};
  };
  const std::jthread adapter{[&](const std::stop_token& stop) {
    for (std::uint16_t number = 0; number < kTimes && !stop.stop_requested(); ++number) {
      while (wanted != number && !stop.stop_requested()) {
        std::this_thread::yield();
      }
      place_target(a.targets().subspan(number % kTargets * kTargetBytes, kTargetBytes),
                   target_of(number));
    }
  }};
  for (std::uint16_t number = 0; number < kTimes; ++number) {
    ASSERT_TRUE(a.engine.take_message(
        message(MessageType::Credits, static_cast<std::uint16_t>(a.sent + kSmall.receive_depth))));
    wanted = number;
    while (!a.engine.may_send()) {
      std::this_thread::yield();
    }
    std::uint32_t wish = 1;
    const std::byte octet{};
    const StreamWrite write = a.engine.write({&octet, 1}, wish);
    ++a.sent;
    a.engine.take_sent(write.id);
    ASSERT_EQ(write.address, target_of(number).address);
    ASSERT_EQ(write.key, kKey);
  }
}

std::vector<std::byte> octets_from(std::size_t first, std::size_t count) {
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::byte>((first + i) * 7 >> (first + i) % 3);
  }
  return out;
}

/// What one end writes while deliveries, reads and grants come in any order.
void converse(Random& random, End& a, End& b) {
  constexpr std::size_t kAll = 30'000;
  std::size_t sent = 0;
  std::size_t read = 0;
  for (int idle = 0; read < kAll && idle < 1'000; ++idle) {
    switch (random.below(5)) {
      case 0:
        if (sent < kAll) {
          const auto next =
              octets_from(sent, std::min<std::size_t>(1 + random.below(6'000), kAll - sent));
          sent += a.write(std::span{next}.first(random.chance(1, 4) ? 1 : next.size()));
        }
        break;
      case 1:
      case 2: {
        End& from = random.chance(1, 2) ? a : b;
        if (from.has_under_way()) {
          from.deliver_to(&from == &a ? b : a);
        }
        break;
      }
      case 3: {
        std::vector<std::byte> out(1 + random.below(3'000));
        const std::size_t peeked = random.chance(1, 4) ? b.engine.read(out, true) : std::size_t{0};
        ASSERT_TRUE(std::ranges::equal(std::span{out}.first(peeked), octets_from(read, peeked)));
        const std::size_t got = b.engine.read(out, false);
        ASSERT_GE(got, peeked);
        ASSERT_TRUE(std::ranges::equal(std::span{out}.first(got), octets_from(read, got)))
            << "after " << read;
        read += got;
        idle = got != 0 ? 0 : idle;
        break;
      }
      default:
        a.grant();
        b.grant();
    }
  }
  EXPECT_EQ(read, kAll);
}

TEST(StreamEngine, CarriesEveryOctetInOrderWhateverTheSizesAndDelays) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random{seed};
    const auto sizes = [&] {
      return StreamSizes{.send_depth = static_cast<std::uint32_t>(16 + random.below(30)),
                         .receive_depth = static_cast<std::uint32_t>(16 + random.below(30)),
                         .inline_bytes = static_cast<std::uint32_t>(random.below(200)),
                         .send_bytes = static_cast<std::uint32_t>(4'096 + random.below(9'000)),
                         .receive_bytes = static_cast<std::uint32_t>(4'096 + random.below(9'000)),
                         .io_map_entries = 0};
    };
    End a{0x10'0000'0000, sizes()};
    End b{0x20'0000'0000, sizes()};
    ASSERT_TRUE(b.engine.take_data(wire::pack(a.engine.own_data())));
    ASSERT_TRUE(a.engine.take_data(wire::pack(b.engine.own_data())));
    a.engine.connect();
    b.engine.connect();
    converse(random, a, b);
    converse(random, b, a);
  }
}

TEST_F(StreamEnds, SendsNoMoreMessagesThanTheOtherEndHasCreditsFor) {
  deliver_all();
  const auto octet = octets_from(0, 1);
  std::size_t sent = 0;
  for (int i = 0; i < 100; ++i) {
    sent += a.write(octet);
    deliver_all();
  }
  EXPECT_EQ(sent, kSmall.receive_depth);
  std::array<std::byte, 8> out{};  // half of them
  EXPECT_EQ(b.engine.read(out, false), out.size());
  b.grant();
  deliver_all();
  EXPECT_TRUE(a.engine.may_send());
}

TEST_F(StreamEnds, WritesNoFurtherThanWhatIsPublished) {
  deliver_all();
  const auto octets = octets_from(0, 10'000);
  std::size_t sent = 0;
  for (int i = 0; i < 10; ++i) {
    sent += a.write(std::span{octets}.subspan(sent));
    deliver_all();
  }
  EXPECT_EQ(sent, kSmall.receive_bytes) << "both halves";
  std::vector<std::byte> out(kSmall.receive_bytes / 2);
  EXPECT_EQ(b.engine.read(out, false), out.size());
  b.grant();
  deliver_all();
  EXPECT_TRUE(a.engine.may_send());
}

TEST_F(StreamEnds, FailsWhoSaysToHaveWrittenMoreThanWasPublished) {
  EXPECT_TRUE(b.engine.take_message(message(MessageType::Data, kSmall.receive_bytes)));
  EXPECT_FALSE(b.engine.take_message(message(MessageType::Data, 1)));
  b.engine.set_failed();
  EXPECT_EQ(b.engine.phase(), StreamEngine::Phase::Failed);
  EXPECT_FALSE(b.engine.may_read());
  EXPECT_FALSE(b.engine.may_write());
}

TEST_F(StreamEnds, FailsWhoSendsMoreMessagesThanItHasCreditsFor) {
  std::uint32_t taken = 0;
  while (taken < 100 && b.engine.take_message(message(MessageType::Data, 1))) {
    ++taken;
  }
  EXPECT_EQ(taken, kSmall.receive_depth + 1);
}

TEST_F(StreamEnds, AnEmptyMessageIsNoEnd) {
  EXPECT_TRUE(b.engine.take_message(message(MessageType::Data, 0)));
  EXPECT_FALSE(b.engine.has_arrived());
  EXPECT_TRUE(b.engine.may_read());
}

TEST_F(StreamEnds, AKeepAliveChangesNothing) {
  EXPECT_TRUE(b.engine.take_message(
      message(MessageType::Control, static_cast<std::uint32_t>(Control::KeepAlive))));
  EXPECT_TRUE(b.engine.is_connected());
  EXPECT_TRUE(b.engine.may_read());
  EXPECT_TRUE(b.engine.may_write());
}

TEST_F(StreamEnds, AHalfThatIsShutLeavesTheOtherOpen) {
  ASSERT_TRUE(a.engine.may_say());
  const Control control = a.engine.stop(false);
  EXPECT_EQ(control, Control::Shutdown);
  a.post(a.engine.say(control));
  deliver_all();
  EXPECT_FALSE(b.engine.may_read());
  EXPECT_TRUE(b.engine.may_write());
  EXPECT_TRUE(b.engine.is_connected());
  const auto back = octets_from(0, 100);
  EXPECT_EQ(b.write(back), back.size());
  deliver_all();
  std::array<std::byte, 100> out{};
  EXPECT_EQ(a.engine.read(out, false), back.size());
  // The second half ends the stream.
  const Control last = b.engine.stop(false);
  EXPECT_EQ(last, Control::Disconnect);
  b.post(b.engine.say(last));
  b.engine.end();
  deliver_all();
  EXPECT_EQ(a.engine.phase(), StreamEngine::Phase::Disconnected);
  EXPECT_EQ(b.engine.phase(), StreamEngine::Phase::Disconnected);
}

TEST_F(StreamEnds, SaysNoMoreOfItsOwnThanItHasRoomFor) {
  int said = 0;
  while (a.engine.may_say() && said < 100) {
    a.post(a.engine.say(Control::KeepAlive));
    ++said;
  }
  EXPECT_EQ(said, 3) << "of four, since the second half was granted";
  EXPECT_FALSE(a.engine.all_sent());
  deliver_all();
  EXPECT_TRUE(a.engine.all_sent());
  EXPECT_TRUE(a.engine.may_say());
}

TEST_F(StreamEnds, WritesIntoWhatTheOtherEndHasMapped) {
  deliver_all();
  const auto index = b.engine.map().free_index();
  ASSERT_EQ(index, 0U);
  b.engine.map().add({.offset = 1'000,
                      .address = b.program_address(),
                      .key = kKey,
                      .length = static_cast<std::uint32_t>(b.program().size()),
                      .index = index,
                      .is_told = false});
  ASSERT_TRUE(b.engine.may_send());
  b.post(b.engine.tell_mapping());
  EXPECT_FALSE(a.engine.find_entry(1'000)) << "it is under way";
  deliver_all();
  EXPECT_FALSE(a.engine.find_entry(999));
  EXPECT_FALSE(a.engine.find_entry(1'256));
  const auto entry = a.engine.find_entry(1'200);
  ASSERT_TRUE(entry);
  const auto octets = octets_from(5, 100);
  std::uint32_t wish = kFirstPiece;
  const std::size_t before = b.messages;
  const StreamWrite write = a.engine.write_at(*entry, 1'200, octets, wish);
  EXPECT_EQ(write.octets.size(), 56U) << "to the end of the mapping";
  a.post(write);
  deliver_all();
  EXPECT_EQ(b.messages, before) << "nobody is told";
  EXPECT_TRUE(std::ranges::equal(b.program().subspan(200), std::span{octets}.first(56)));
}

TEST(StreamEngine, RefusesWhoIsNoRsocketOrSpeaksAnother) {
  End end{0x10'0000'0000, kSmall};
  const ConnectionData good = end.engine.own_data();
  EXPECT_TRUE(end.engine.take_data(wire::pack(good)));
  EXPECT_FALSE(end.engine.take_data({}));
  const auto octets = wire::pack(good);
  EXPECT_FALSE(end.engine.take_data(std::span{octets}.first(39)));
  ConnectionData bad = good;
  bad.version = 2;
  EXPECT_EQ(end.engine.take_data(wire::pack(bad)).error().code, ErrorCode::NotSupported);
  bad = good;
  bad.flags ^= kIsBigEndian;
  EXPECT_EQ(end.engine.take_data(wire::pack(bad)).error().code, ErrorCode::NotSupported);
  bad = good;
  bad.targets.length = 0;
  EXPECT_EQ(end.engine.take_data(wire::pack(bad)).error().code, ErrorCode::InvalidArgument);
}

TEST(StreamSizes, AreFittedToTheDeviceAndTheProtocol) {
  const StreamSizes least = fitted({}, 100);
  EXPECT_EQ(least.send_depth, 16U);
  EXPECT_EQ(least.receive_bytes, 4'096U);
  EXPECT_EQ(least.inline_bytes, kIoMapEntryBytes);
  const StreamSizes most = fitted({.send_depth = 1'000'000,
                                   .receive_depth = 1'000'000,
                                   .inline_bytes = 500,
                                   .send_bytes = ~0U,
                                   .receive_bytes = ~0U,
                                   .io_map_entries = 3},
                                  100);
  EXPECT_EQ(most.send_depth, 100U);
  EXPECT_EQ(most.receive_depth, 100U);
  EXPECT_EQ(most.inline_bytes, 500U);
  EXPECT_EQ(most.send_bytes, 1U << 28);
  EXPECT_EQ(targets_bytes(most), 2 * 16U + 3 * 24U);
  EXPECT_EQ(fitted({.receive_bytes = 5'001}, 100).receive_bytes, 5'000U) << "two halves";
}

}  // namespace
}  // namespace weft::rsockets
