#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/engine/engine.h"
#include "core/rdma_rw.h"
#include "core/testing/engine_pair.h"

namespace weft::core::testing {

/// What the driver was given to post, counted before it posts; of one test at a time.
struct PostedRequests {
  std::uint32_t all{};
  std::uint32_t registrations{};
  std::uint32_t invalidations{};
  std::uint32_t transfers{};
};
inline PostedRequests posted_requests;

inline Result<void> post_send_counted(Qp& qp, const SendWr& first, const SendWr** bad) {
  for (const SendWr* wr = &first; wr != nullptr; wr = wr->next) {
    using enum verbs::WrOpcode;
    ++posted_requests.all;
    posted_requests.registrations +=
        wr->opcode == RegisterMemory || wr->opcode == RegisterMemoryIntegrity ? 1 : 0;
    posted_requests.invalidations += wr->opcode == LocalInvalidate ? 1 : 0;
    posted_requests.transfers += wr->opcode == RdmaWrite || wr->opcode == RdmaRead ? 1 : 0;
  }
  return engine::engine_operations().post_send(qp, first, bad);
}

[[nodiscard]] inline DeviceOperations counting_operations() {
  DeviceOperations operations = engine::engine_operations();
  operations.post_send = post_send_counted;
  return operations;
}

/// A list over memory of its own.
class ScatteredMemory {
 public:
  static constexpr std::uint32_t kPage = 4'096;

  /// `count` elements of `length` bytes, `stride` apart, of which the first begins with a page; in
  /// an order in which no element follows its neighbour.
  ScatteredMemory(std::size_t count, std::uint32_t length, std::uint32_t stride)
      : memory_(count * stride + kPage) {
    const auto address = std::bit_cast<std::uint64_t>(memory_.data());
    const std::uint64_t base = (address + kPage - 1) & ~std::uint64_t{kPage - 1};
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = i % 2 == 0 ? count - 1 - i / 2 : i / 2;  // the last, the first, ...
      list_.push_back({.address = base + place * stride, .length = length});
    }
  }

  [[nodiscard]] std::span<const ScatterEntry> list() const { return list_; }
  [[nodiscard]] std::size_t length() const {
    return std::accumulate(
        list_.begin(), list_.end(), std::size_t{0},
        [](std::size_t sum, const ScatterEntry& entry) { return sum + entry.length; });
  }
  [[nodiscard]] static std::span<std::byte> bytes_of(const ScatterEntry& entry) {
    return {std::bit_cast<std::byte*>(entry.address), entry.length};
  }
  /// All bytes, in the order of the list.
  [[nodiscard]] std::vector<std::byte> gathered() const {
    std::vector<std::byte> all;
    for (const ScatterEntry& entry : list_) {
      all.insert(all.end(), bytes_of(entry).begin(), bytes_of(entry).end());
    }
    return all;
  }
  void fill(unsigned seed) {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      memory_[i] = static_cast<std::byte>((i * 7 + i / 251 + seed) & 0xFF);
    }
  }
  [[nodiscard]] const std::vector<std::byte>& memory() const { return memory_; }

 private:
  std::vector<std::byte> memory_;
  std::vector<ScatterEntry> list_;
};

/// A pair of hosts, of which a moves data by contexts and b has memory that a may use.
class RdmaRwTest : public ::testing::Test {
 protected:
  explicit RdmaRwTest(const EndOptions& options = {.depth = 128},
                      const engine::EngineInit& init = {.operations = counting_operations})
      : pair_(options, init), remote_(257 * ScatteredMemory::kPage) {
    constexpr auto kAll = verbs::AccessFlags{verbs::Access::LocalWrite} |
                          verbs::Access::RemoteWrite | verbs::Access::RemoteRead;
    const auto address = std::bit_cast<std::uint64_t>(remote_.data());
    region_ = *register_user_mr(
        *pair_.b.pd, {.start = address, .length = remote_.size(), .iova = address}, kAll, nullptr);
  }
  ~RdmaRwTest() override { EXPECT_TRUE(deregister_mr(*region_)); }

  [[nodiscard]] RdmaTransfer transfer_of(const ScatteredMemory& local, DmaDirection direction,
                                         std::uint32_t offset = 0) const {
    return {.list = local.list(),
            .offset = offset,
            .remote_address = region_->iova,
            .rkey = region_->rkey,
            .direction = direction};
  }

  /// Posts and waits for the one completion.
  [[nodiscard]] verbs::WcStatus run(RdmaContext& context) {
    CountedRequest request;
    const auto posted = context.post(&request.handler);
    EXPECT_TRUE(posted) << posted.error().reason;
    wait_for(request);
    return request.status;
  }
  void wait_for(const CountedRequest& request) {
    pair_.environment.wait_until([&] { return request.calls != 0; },
                                 pair_.environment.now() + Duration::seconds(30));
    EXPECT_EQ(request.calls, 1U);
  }

  /// A transfer from its beginning to its end: as many requests as were announced, and the same
  /// bytes on both sides.
  void expect_moves(ScatteredMemory& local, DmaDirection direction, std::uint32_t offset) {
    SCOPED_TRACE(fmt::format("{} elements from byte {}, direction {}", local.list().size(), offset,
                             static_cast<int>(direction)));
    local.fill(direction == DmaDirection::ToDevice ? 1 : 2);
    std::ranges::fill(remote_, std::byte{0xEE});
    const std::size_t length = local.length() - offset;
    if (direction == DmaDirection::FromDevice) {
      for (std::size_t i = 0; i < length; ++i) {
        remote_[i] = static_cast<std::byte>((i * 13 + i / 97) & 0xFF);
      }
    }
    const std::vector<std::byte> before = local.gathered();
    const PostedRequests start = posted_requests;
    RdmaContext context;
    const auto entries =
        context.init(*pair_.a.qp, PortNumber{1}, transfer_of(local, direction, offset));
    ASSERT_TRUE(entries) << entries.error().reason;
    ASSERT_EQ(run(context), verbs::WcStatus::Success);
    context.destroy();
    EXPECT_EQ(posted_requests.all - start.all, *entries);
    const std::vector<std::byte> after = local.gathered();
    EXPECT_TRUE(std::ranges::equal(std::span{after}.first(offset), std::span{before}.first(offset)))
        << "bytes before the offset have changed";
    EXPECT_TRUE(
        std::ranges::equal(std::span{after}.subspan(offset), std::span{remote_}.first(length)));
    EXPECT_TRUE(std::ranges::all_of(std::span{remote_}.subspan(length),
                                    [](std::byte octet) { return octet == std::byte{0xEE}; }));
  }

  EnginePair pair_;
  std::vector<std::byte> remote_;
  Mr* region_{};
};

}  // namespace weft::core::testing
