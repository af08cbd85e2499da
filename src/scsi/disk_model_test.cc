// Random commands of two nexuses against the simplest model of a disk, an array: what is read must
// be what the model has. Commands run many at a time, and the device answers in random order.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::Bytes;
using testing::cdb10;
using testing::cdb16;
using testing::Exchange;

constexpr std::uint64_t kBlocks = 700;  // more than five chunks of the RAM disk

class ModelRun {
 public:
  explicit ModelRun(std::uint64_t seed)
      : random_(seed), bench_({.blocks = kBlocks}), model_(kBlocks * 512) {
    nexuses_ = {bench_.open(1), bench_.open(2, 2)};
    bench_.device.holds = true;
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      if (random_.chance(1, 2)) {
        issue();
      } else if (bench_.device.waiting() > 0) {
        bench_.device.release(random_.below(bench_.device.waiting()));
      }
      check_ended();
    }
    while (bench_.device.release()) {
    }
    check_ended();
    EXPECT_TRUE(expected_.empty());
    EXPECT_EQ(bench_.unit->tasks(), 0u);
    bench_.device.holds = false;
    for (std::uint64_t lba = 0; lba < kBlocks; lba += 100) {
      const Answer answer = bench_.run(nexuses_[0], cdb10(0x28, lba, 100), {}, 51200);
      EXPECT_TRUE(std::ranges::equal(answer.data, ByteSpan{model_}.subspan(lba * 512, 51200)));
    }
  }

 private:
  struct Expected {
    Exchange* exchange;
    Bytes data;
    Status status;
  };

  Bytes some_data(std::uint64_t blocks) {
    Bytes data(blocks * 512);
    const auto value = static_cast<std::byte>(random_() & 0xFF);
    std::ranges::fill(data, value);
    for (std::uint64_t i = 0; i < blocks; ++i) {
      store_number(data, i * 512, 8, random_());
    }
    return data;
  }
  MutableByteSpan model(std::uint64_t lba, std::uint64_t blocks) {
    return MutableByteSpan{model_}.subspan(lba * 512, blocks * 512);
  }
  void expect(Exchange& exchange, Bytes data = {}, Status status = Status::Good) {
    expected_.push_back({&exchange, std::move(data), status});
  }
  Exchange& start(Bytes cdb, Bytes out = {}, std::size_t in = 0) {
    const auto attribute = random_.chance(1, 8) ? TaskAttribute::Ordered : TaskAttribute::Simple;
    return bench_.start(nexuses_[random_.below(2)], std::move(cdb), std::move(out), in, attribute);
  }

  // The model changes when a command is submitted: what overlaps runs in that order.
  void issue() {
    const std::uint64_t lba = random_.below(kBlocks);
    const std::uint64_t blocks = random_.below(std::min<std::uint64_t>(kBlocks - lba, 40)) + 1;
    const MutableByteSpan part = model(lba, blocks);
    switch (random_.below(8)) {
      case 0:
      case 1: {
        Bytes now(part.begin(), part.end());
        expect(start(cdb16(0x88, lba, blocks), {}, now.size()), now);
        break;
      }
      case 2:
      case 3: {
        const Bytes data = some_data(blocks);
        expect(start(cdb10(random_.chance(1, 3) ? 0x2E : 0x2A, lba, blocks), data));
        std::ranges::copy(data, part.begin());
        break;
      }
      case 4:
        compare_and_write(lba);
        break;
      case 5: {
        const Bytes data = some_data(1);
        expect(start(cdb16(0x93, lba, blocks), data));
        for (std::uint64_t i = 0; i < blocks; ++i) {
          std::ranges::copy(data, part.begin() + static_cast<std::ptrdiff_t>(i * 512));
        }
        break;
      }
      case 6:
        unmap(lba, blocks);
        break;
      default: {
        const Bytes now(part.begin(), part.end());
        expect(start(cdb10(0x2F, lba, blocks, 0x02), now));
        break;
      }
    }
  }

  void compare_and_write(std::uint64_t lba) {
    const bool matches = random_.chance(2, 3);
    const MutableByteSpan part = model(lba, 1);
    Bytes both(part.begin(), part.end());
    if (!matches) {
      both[random_.below(512)] ^= std::byte{0x40};
    }
    const Bytes next = some_data(1);
    both.insert(both.end(), next.begin(), next.end());
    Bytes cdb(16);
    store_number(cdb, 0, 1, 0x89);
    store_number(cdb, 2, 8, lba);
    store_number(cdb, 13, 1, 1);
    expect(start(cdb, both), {}, matches ? Status::Good : Status::CheckCondition);
    if (matches) {
      std::ranges::copy(next, part.begin());
    }
  }

  void unmap(std::uint64_t lba, std::uint64_t blocks) {
    ParameterData list;
    list.add(2, 22).add(2, 16).add(4, 0).add(8, lba).add(4, blocks).add(4, 0);
    Bytes cdb(10);
    store_number(cdb, 0, 1, 0x42);
    store_number(cdb, 7, 2, list.size());
    expect(start(cdb, Bytes(list.octets().begin(), list.octets().end())));
    std::ranges::fill(model(lba, blocks), std::byte{0});
  }

  void check_ended() {
    std::erase_if(expected_, [](const Expected& expected) {
      const Answer& answer = expected.exchange->answer;
      if (!answer.ended) {
        return false;
      }
      EXPECT_EQ(answer.status(), expected.status);
      EXPECT_TRUE(answer.data == expected.data);
      return true;
    });
  }

  Random random_;
  Bench bench_;
  Bytes model_;
  std::vector<NexusId> nexuses_;
  std::vector<Expected> expected_;
};

TEST(DiskModel, RandomCommandsInAnyOrderOfAnswersLeaveWhatTheModelHas) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ModelRun(seed).run(400);
  }
}

}  // namespace
}  // namespace weft::scsi
