// What the kernel's RDMA API costs (src/core), in one process and without a fabric: each figure
// beside the same done by hand.
//
//   weft_kernel_costs
//
// Completions by the context that polls them, beside polling by hand; RDMA contexts, beside the
// work requests posted by hand, through the engine over a wire in memory; regions from their pools;
// a path from SA's cache; protection information generated and verified by an integrity region,
// beside ISA-L's CRC alone. Prints a JSON list of {name, value, unit, peer, peer_value}.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/fmr_pool.h"
#include "core/mr_pool.h"
#include "core/rdma_rw.h"
#include "core/sa/sa_service.h"
#include "core/sa/sa_user.h"
#include "core/testing/engine_pair.h"
#include "core/testing/fake_driver.h"
#include "core/testing/mad_network.h"
#include "core/testing/sa_server.h"
#include "hca/signed_memory.h"
#include "verbs_driver/threaded_environment.h"
#include "wire/protection_tuple.h"

namespace {

using weft::ByteSpan;
using weft::Duration;
using weft::Lid;
using weft::PortNumber;
namespace core = weft::core;
namespace hca = weft::hca;
namespace verbs = weft::verbs;
namespace wire = weft::wire;
using Clock = std::chrono::steady_clock;
using core::testing::CountedRequest;
using core::testing::EngineNetwork;
using core::testing::EnginePair;

constexpr std::chrono::milliseconds kRun{150};  // policy: of one figure
constexpr std::uint64_t kPage = 4'096;
constexpr verbs::AccessFlags kAll = verbs::AccessFlags{verbs::Access::LocalWrite} |
                                    verbs::Access::RemoteWrite | verbs::Access::RemoteRead;

[[noreturn]] void give_up(std::string_view reason) {
  fmt::print(stderr, "weft_kernel_costs: {}\n", reason);
  std::exit(1);
}

void require(bool holds, std::string_view what) {
  if (!holds) {
    give_up(what);
  }
}

template <class T>
[[nodiscard]] T need(weft::Result<T> result) {
  if (!result) {
    give_up(result.error().reason);
  }
  return *std::move(result);
}

void need(const weft::Result<void>& result) {
  if (!result) {
    give_up(result.error().reason);
  }
}

/// Seconds of one call: the shortest of several turns, each of as many calls as take a part of the
/// run, so that what else the machine does counts less.
template <class Call>
[[nodiscard]] double seconds_of(Call call) {
  constexpr int kTurns = 5;
  call();
  std::uint64_t calls = 1;
  double best = 1e9;
  for (int turn = 0; turn < kTurns;) {
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < calls; ++i) {
      call();
    }
    const std::chrono::duration<double> taken = Clock::now() - start;
    if (taken < kRun / kTurns / 2) {
      calls *= 2;
      continue;
    }
    best = std::min(best, taken.count() / static_cast<double>(calls));
    ++turn;
  }
  return best;
}

struct Row {
  std::string name;
  double value{};
  std::string_view unit;
  std::string peer{};
  double peer_value{};
};
std::vector<Row> rows;

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e9;

// --- completions

struct Counter {
  core::CompletionHandler handler{.done = done};  // first: found by its address
  std::atomic<std::uint64_t> seen{};
  static void done(core::Cq& /*cq*/, const core::Wc& wc) {
    static_cast<Counter*>(static_cast<void*>(wc.handler()))->seen.fetch_add(1);
  }
};

constexpr std::uint32_t kBatch = 1'024;

/// Microseconds of a completion, from the ring to its handler: `take(seen)` sees to it that so many
/// have been handled.
template <class Take>
[[nodiscard]] double time_of_completion(hca::CompletionQueue& ring, Counter& counter, Take take) {
  hca::Wc wc;
  wc.wr_id = core::wr_id_of(counter.handler);
  return seconds_of([&] {
           const std::uint64_t wanted = counter.seen + kBatch;
           for (std::uint32_t i = 0; i < kBatch; ++i) {
             require(ring.push(wc, false), "the CQ is full");
           }
           take(wanted);
         }) /
         kBatch * kMicro;
}

void completions() {
  weft::verbs_driver::ThreadedEnvironment environment{
      [](core::LogLevel, std::string_view text) { fmt::print(stderr, "{}\n", text); }};
  core::Registry registry{environment};
  EngineNetwork network{environment};
  core::Device& device = network.add_host(registry).device();
  double by_hand = 0;
  {
    core::Cq& cq = *need(core::create_cq(device, {.entries = 2 * kBatch}));
    Counter counter;
    by_hand = time_of_completion(
        *static_cast<hca::CompletionQueue*>(cq.driver_data), counter, [&](std::uint64_t wanted) {
          std::array<core::Wc, core::kCqBatch> batch;
          while (counter.seen < wanted) {
            for (const core::Wc& wc : std::span{batch}.first(core::poll_cq(cq, batch))) {
              wc.handler()->done(cq, wc);
            }
          }
        });
    need(core::destroy_cq(cq));
  }
  using enum core::PollContext;
  constexpr auto kContexts = std::to_array<std::pair<core::PollContext, std::string_view>>({
      {Direct,           "direct"            },
      {SoftIrq,          "soft interrupt"    },
      {WorkQueue,        "work queue"        },
      {UnboundWorkQueue, "unbound work queue"}
  });
  for (const auto& [context, name] : kContexts) {
    core::Cq& cq =
        *need(core::allocate_cq(device, {.entries = 2 * kBatch, .poll_context = context}));
    Counter counter;
    const double taken =
        time_of_completion(*static_cast<hca::CompletionQueue*>(cq.driver_data), counter,
                           [&, is_direct = context == Direct](std::uint64_t wanted) {
                             while (counter.seen < wanted) {
                               is_direct ? static_cast<void>(core::process_cq_direct(cq, -1))
                                         : std::this_thread::yield();
                             }
                           });
    rows.push_back({fmt::format("completion, {}", name), taken, "us", "polled by hand", by_hand});
    need(core::free_cq(cq));
  }
  network.unregister_all();
}

// --- RDMA contexts

/// A list of `count` elements over memory of its own, none of which follows its neighbour.
class Scattered {
 public:
  Scattered(std::size_t bytes, std::size_t count) : memory_(2 * bytes + kPage) {
    const std::size_t each = bytes / count;
    for (std::size_t i = 0; i < count; ++i) {
      list_.push_back({.address = std::bit_cast<std::uint64_t>(memory_.data() + 2 * each * i),
                       .length = static_cast<std::uint32_t>(each)});
    }
  }
  [[nodiscard]] std::span<const core::ScatterEntry> list() const { return list_; }

 private:
  std::vector<std::byte> memory_;
  std::vector<core::ScatterEntry> list_;
};

class Transfers {
 public:
  Transfers() : remote_(1U << 20) {
    const auto address = std::bit_cast<std::uint64_t>(remote_.data());
    region_ = need(core::register_user_mr(
        *pair_.b.pd, {.start = address, .length = remote_.size(), .iova = address}, kAll, nullptr));
  }
  ~Transfers() { need(core::deregister_mr(*region_)); }

  void by_context(const Scattered& local, core::DmaDirection direction) {
    CountedRequest request;
    static_cast<void>(need(context_.init(*pair_.a.qp, PortNumber{1},
                                         {.list = local.list(),
                                          .remote_address = region_->iova,
                                          .rkey = region_->rkey,
                                          .direction = direction})));
    need(context_.post(&request.handler));
    wait_for(request);
    context_.destroy();
  }

  /// The same requests, as a protocol without contexts would post them.
  void by_hand(const Scattered& local, core::DmaDirection direction) {
    CountedRequest request;
    sges_.clear();
    requests_.clear();
    for (const core::ScatterEntry& element : local.list()) {
      sges_.push_back({.address = element.address,
                       .length = element.length,
                       .lkey = pair_.a.pd->local_dma_lkey()});
    }
    const std::size_t most = pair_.a.qp->init().capabilities.max_send_sge;
    requests_.reserve(sges_.size());
    std::uint64_t remote = region_->iova;
    for (std::span<const verbs::Sge> left{sges_}; !left.empty();) {
      const auto part = left.first(std::min(most, left.size()));
      left = left.subspan(part.size());
      core::SendWr wr;
      wr.opcode = direction == core::DmaDirection::ToDevice ? verbs::WrOpcode::RdmaWrite
                                                            : verbs::WrOpcode::RdmaRead;
      wr.sges = part;
      wr.remote_address = remote;
      wr.rkey = region_->rkey;
      requests_.push_back(wr);
      if (requests_.size() > 1) {
        requests_[requests_.size() - 2].next = &requests_.back();
      }
      for (const verbs::Sge& sge : part) {
        remote += sge.length;
      }
    }
    requests_.back().wr_id = core::wr_id_of(request.handler);
    requests_.back().flags = verbs::Send::Signaled;
    need(core::post_send(*pair_.a.qp, requests_.front()));
    wait_for(request);
  }

 private:
  void wait_for(const CountedRequest& request) {
    const bool in_time = pair_.environment.wait_until(
        [&] { return request.calls != 0; }, pair_.environment.now() + Duration::seconds(30));
    require(in_time && request.status == verbs::WcStatus::Success, "a transfer has failed");
  }

  EnginePair pair_{{.depth = 128}};
  std::vector<std::byte> remote_;
  core::Mr* region_{};
  core::RdmaContext context_;
  std::vector<verbs::Sge> sges_;
  std::vector<core::SendWr> requests_;
};

void transfers() {
  Transfers transfers;
  for (const auto& [bytes, words] : std::to_array<std::pair<std::size_t, std::string_view>>({
           {4'096,    "4 KiB"  },
           {131'072,  "128 KiB"},
           {1U << 20, "1 MiB"  }
  })) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{16}, std::size_t{256}}) {
      const Scattered local{bytes, count};
      for (const auto& [direction, verb] :
           std::to_array<std::pair<core::DmaDirection, std::string_view>>({
               {core::DmaDirection::ToDevice,   "WRITE"},
               {core::DmaDirection::FromDevice, "READ" }
      })) {
        const double by_context = seconds_of([&] { transfers.by_context(local, direction); });
        const double by_hand = seconds_of([&] { transfers.by_hand(local, direction); });
        rows.push_back({fmt::format("RDMA context, {} of {} in {}", verb, words, count),
                        by_context * kMicro, "us", "posted by hand", by_hand * kMicro});
      }
    }
  }
}

// --- pools

void pools() {
  EnginePair pair;
  core::MrPool regions{pair.a.device->lock_policy()};
  need(regions.fill(*pair.a.pd, 64, core::MrType::MemoryRegistration, 16));
  rows.push_back({"region of a pool, got and put",
                  seconds_of([&] { regions.put(*regions.get()); }) * kMicro, "us"});
  regions.clear();
  std::vector<std::byte> memory(3 * kPage);
  const std::uint64_t page =
      (std::bit_cast<std::uint64_t>(memory.data()) + kPage - 1) & ~(kPage - 1);
  for (const bool caches : {true, false}) {
    core::FmrPool& pool =
        *need(core::create_fmr_pool(*pair.a.pd, {
                                                    .region = {.max_pages = 4, .access = kAll},
                                                    .pool_size = 64,
                                                    .dirty_watermark = 32,
                                                    .caches = caches
    }));
    const std::array pages{page};
    const double taken = seconds_of([&] {
      const auto mapped = pool.map(pages, page);
      if (!mapped) {
        need(pool.flush());  // as a user without a free region does
        return;
      }
      pool.unmap(**mapped);
    });
    rows.push_back({caches ? "FMR of a pool, mapped and unmapped, in its cache"
                           : "FMR of a pool, mapped and unmapped, not in its cache",
                    taken * kMicro, "us"});
    core::destroy_fmr_pool(pool);
  }
}

// --- SA

void paths() {
  core::testing::ManualEnvironment environment;
  core::Registry registry{environment};
  core::testing::MadNetwork network;
  core::MadService mads{registry, network};
  core::SaService service{mads};
  core::testing::FakeDriver driver{registry};
  constexpr weft::Gid kOwn{weft::kDefaultGidPrefix, weft::Guid{0x11}};
  constexpr weft::Gid kPeer{weft::kDefaultGidPrefix, weft::Guid{0x22}};
  driver.port.sm_lid = driver.port.lid;
  driver.gids = {kOwn};
  need(driver.register_as("a"));
  network.attach(*need(mads.port(driver.device(), PortNumber{1}, weft::mad::InterfaceKind::Gsi)));
  {
    core::testing::SaServer server{mads, driver.device(), PortNumber{1}};
    core::SaUser user{service};
    std::uint64_t told = 0;
    const auto ask = [&] {
      static_cast<void>(need(user.resolve_path(
          {.device = driver.device(), .port = PortNumber{1}}, {.sgid = kOwn, .dgid = kPeer},
          [&](const weft::Result<wire::PathRecord>& path) { told += path ? 1 : 0; })));
      environment.run_all();
    };
    ask();
    const std::size_t requests = server.methods.size();
    rows.push_back({"a path from the cache", seconds_of(ask) * kMicro, "us"});
    require(told > 1 && server.methods.size() == requests, "paths do not come from the cache");
  }
  registry.unregister_device(driver.device());
}

// --- protection information

void protection() {
  constexpr std::size_t kSector = 512;
  constexpr std::size_t kSectors = 256;
  std::vector<std::byte> data(kSector * kSectors);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  std::vector<std::byte> tuples(8 * kSectors);
  const verbs::T10DifDomain dif{
      .application_tag = 0x1234, .reference_tag = 0x100, .remaps_reference_tag = true};
  std::uint32_t sum = 0;
  const double raw = seconds_of([&] {
    for (std::size_t i = 0; i < kSectors; ++i) {
      sum += wire::crc_t10_dif(ByteSpan{data}.subspan(i * kSector, kSector));
    }
  });
  for (std::size_t i = 0; i < kSectors; ++i) {
    const wire::ProtectionTuple tuple{
        .guard = wire::crc_t10_dif(ByteSpan{data}.subspan(i * kSector, kSector)),
        .application_tag = dif.application_tag,
        .reference_tag = dif.reference_tag + static_cast<std::uint32_t>(i)};
    std::ranges::copy(wire::pack(tuple), tuples.begin() + static_cast<std::ptrdiff_t>(8 * i));
  }
  const double bytes = static_cast<double>(data.size());
  for (const bool verifies : {false, true}) {
    hca::PagedMemory content;
    content.add(data);
    hca::PagedMemory metadata;
    if (verifies) {
      metadata.add(tuples);
    }
    verbs::SignatureAttributes attributes{.check_mask = 0xFF, .metadata_length = metadata.length()};
    (verifies ? attributes.memory : attributes.wire) = {.type = verbs::SignatureType::T10Dif,
                                                        .dif = dif};
    hca::SignedMemory region{std::move(content), std::move(metadata), weft::LockPolicy::None};
    const std::string_view refusal = region.sign(attributes);
    require(refusal.empty(), refusal);
    const double taken = seconds_of([&] {
      region.visit(0, region.length(),
                   [&](ByteSpan piece) { sum += std::to_integer<std::uint32_t>(piece.front()); });
    });
    require(!region.take_status().failed, "sound protection information is refused");
    rows.push_back(
        {verifies ? "protection information, verified" : "protection information, generated",
         bytes / taken / kGiga, "GB/s", "ISA-L's CRC alone", bytes / raw / kGiga});
  }
  require(sum != 1, "never so");  // keeps the loops
}

}  // namespace

int main() {
  completions();
  transfers();
  pools();
  paths();
  protection();
  fmt::print("[");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    fmt::print(R"({}{{"name": "{}", "value": {:.6g}, "unit": "{}", "peer": )", i == 0 ? "" : ",\n ",
               row.name, row.value, row.unit);
    if (row.peer.empty()) {
      fmt::print(R"(null, "peer_value": null}})");
    } else {
      fmt::print(R"("{}", "peer_value": {:.6g}}})", row.peer, row.peer_value);
    }
  }
  fmt::print("]\n");
  return 0;
}
