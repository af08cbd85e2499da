// All of the core at once: eight threads, each of which does one thing after the other at random.
// Whatever promises to be a fence is believed: when it has returned a flag is set, which callbacks
// look at, and what they use goes. WEFT_CHURN_SECONDS makes it longer than the ordinary 1.5 s.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "core/drain.h"
#include "core/fmr_pool.h"
#include "core/mr.h"
#include "core/odp_umem.h"
#include "core/rdma_rw.h"
#include "core/registry.h"
#include "core/sa/sa_service.h"
#include "core/sa/sa_user.h"
#include "core/testing/engine_pair.h"
#include "core/testing/fake_driver.h"
#include "core/testing/page_table.h"
#include "core/testing/sa_server.h"
#include "core/umem.h"
#include "kernel/process_memory.h"
#include "threaded_environment.h"
#include "wire/mad/component_mask.h"

namespace weft::core {
namespace {

using testing::End;
using testing::EngineNetwork;
using testing::FakeDriver;
using testing::PageTable;
using testing::SaServer;
using testing::ThreadedEnvironment;
using wire::kComponent;
using wire::McMemberRecord;
using wire::PathRecord;

constexpr PortNumber kPort{1};
constexpr Gid kGroup{0xFF12'401B'FFFF'0000, Guid{5}};
constexpr std::uint64_t kPage = PageTable::kPage;
constexpr std::uint64_t kStart = 0x7F00'0000'0000;
constexpr std::uint64_t kPages = 64;
constexpr verbs::AccessFlags kAll = verbs::AccessFlags{verbs::Access::LocalWrite} |
                                    verbs::Access::RemoteWrite | verbs::Access::RemoteRead;

/// Over once the call that promises to be one has returned; each callback looks at its own.
struct Fence {
  std::atomic<bool> is_over{};
  void expect_open(const char* callback) const {
    EXPECT_FALSE(is_over) << callback << " after its fence";
  }
};

/// The cables between the ports that stay; a MAD in eight is lost. Ports of devices that come and
/// go have none.
class Cables final : public MadCarrier {
 public:
  void plug(MadPort& port, Lid lid) { ends_.push_back({.port = &port, .lid = lid}); }
  /// Before the ports go: each goes by itself, and others may be sending to it.
  void unplug() {
    const std::unique_lock lock{mutex_};
    ends_.clear();
  }
  void transmit(MadPort& from, const mad::MadPacket& packet) override {
    const std::shared_lock lock{mutex_};
    const auto source = std::ranges::find(ends_, &from, &CableEnd::port);
    const auto to = std::ranges::find(ends_, packet.address.lid, &CableEnd::lid);
    if (source == ends_.end() || to == ends_.end() || sent_.fetch_add(1) % 8 == 7) {
      return;
    }
    mad::MadAddress address = packet.address;
    address.lid = source->lid;
    to->port->receive(address, packet.bytes);
  }

 private:
  struct CableEnd {
    MadPort* port{};
    Lid lid;
  };
  std::shared_mutex mutex_;
  std::vector<CableEnd> ends_;
  std::atomic<std::uint64_t> sent_{};
};

/// What the threads share: a host with two devices that stay, SA at the port of the first, and
/// memory.
struct World {
  World() {
    for (std::size_t i = 0; i < 2; ++i) {
      network.add_host(registry);
      cables.plug(**mads.port(device(i), kPort, mad::InterfaceKind::Gsi), EngineNetwork::lid_of(i));
    }
    environment.run_world([this] { return network.step(); });
    server.emplace(mads, device(0), kPort);
    server->answer = [](mad::MadMessage& message) {
      const auto attribute = static_cast<wire::SaAttribute>(message.header().attribute_id);
      return attribute == wire::SaAttribute::McMemberRecord ? SaServer::take_member(message)
                                                            : SaServer::tell_path(message);
    };
    base = (std::bit_cast<std::uint64_t>(memory.data()) + kPage - 1) & ~(kPage - 1);
    space.map(kStart, kPages, base);
    pd = *allocate_pd(device(1));
    FmrPoolParameters parameters{
        .region = {.max_pages = 4, .access = kAll},
        .pool_size = 32,
        .dirty_watermark = 4,
        .caches = true
    };
    pool = *create_fmr_pool(*pd, parameters);
  }
  ~World() {
    destroy_fmr_pool(*pool);
    EXPECT_TRUE(deallocate_pd(*pd));
    server.reset();
    environment.stop_world();
    cables.unplug();
    network.unregister_all();
  }

  [[nodiscard]] Device& device(std::size_t index) { return network.host(index).device(); }
  [[nodiscard]] Device& any_device(Random& random) { return device(random.below(2)); }
  [[nodiscard]] Gid gid(std::size_t index) {
    return get_gid(device(index), kPort, 0).value()->gid();
  }

  ThreadedEnvironment environment{4};
  Registry registry{environment};
  Cables cables;
  MadService mads{registry, cables};
  SaService sa{mads};
  EngineNetwork network{environment};
  std::optional<SaServer> server;
  std::vector<std::byte> memory = std::vector<std::byte>((kPages + 1) * kPage);
  std::uint64_t base{};
  PageTable space{LockPolicy::Spin};
  kernel::ProcessMemory own;
  Pd* pd{};
  FmrPool* pool{};
};

/// Looks at all that the core remembers of a device.
void query_caches(Device& device) {
  EXPECT_TRUE(query_port(device, kPort));
  EXPECT_TRUE(get_cached_pkey(device, kPort, 0));
  EXPECT_TRUE(get_cached_lmc(device, kPort));
  EXPECT_TRUE(get_cached_port_state(device, kPort));
  const auto gid = get_gid(device, kPort, 0);
  if (gid) {
    EXPECT_FALSE((*gid)->gid().is_zero());
  }
}

class Handler final : public EventHandler {
 public:
  using EventHandler::EventHandler;
  void handle(const Event& event) override {
    fence.expect_open("handle()");
    EXPECT_EQ(event.device, &device());
    query_caches(device());
  }
  Fence fence;
};

/// Uses each device as upper layers do, with an event handler of its own.
class Consumer final : public Client {
 public:
  Consumer() : Client("consumer", false) {}

  Result<void> add(Device& device) override {
    fence.expect_open("add()");
    auto handler = std::make_unique<Handler>(device);
    register_event_handler(*handler);
    EXPECT_TRUE(device.registry().set_client_data(device, *this, handler.get()));
    query_caches(device);
    const std::lock_guard lock{mutex_};
    EXPECT_TRUE(handlers_.emplace(&device, std::move(handler)).second);
    return {};
  }
  void remove(Device& device, void* data) override {
    fence.expect_open("remove()");
    std::unique_ptr<Handler> handler;
    {
      const std::lock_guard lock{mutex_};
      handler = std::move(handlers_.at(&device));
      handlers_.erase(&device);
    }
    EXPECT_EQ(data, handler.get());
    unregister_event_handler(*handler);
    handler->fence.is_over = true;
  }
  void rename(Device& device, void* /*data*/) override {
    fence.expect_open("rename()");
    EXPECT_FALSE(device.name().empty());
  }
  [[nodiscard]] bool is_idle() {
    const std::lock_guard lock{mutex_};
    return handlers_.empty();
  }
  Fence fence;

 private:
  std::mutex mutex_;
  std::map<Device*, std::unique_ptr<Handler>> handlers_;
};

// --- what a thread may do, from a beginning to an end

void register_a_client(World& world, Random& random) {
  Consumer client;
  ASSERT_TRUE(world.registry.register_client(client));
  for (std::uint64_t i = random.below(4); i != 0; --i) {
    std::this_thread::yield();
  }
  world.registry.unregister_client(client);
  client.fence.is_over = true;
  EXPECT_TRUE(client.is_idle());
}

/// With queries to an SA that does not answer, and events under way, when it goes.
void register_a_device(World& world, Random& random) {
  FakeDriver driver{world.registry, kInfinibandPort, FakeDriver::with_deallocation};
  driver.gids = {
      Gid{kDefaultGidPrefix, Guid{0x77}}
  };
  driver.port.sm_lid = Lid{9};
  ASSERT_TRUE(driver.register_as("churn%d"));
  Device& device = driver.device();
  Fence fence;
  std::atomic<int> calls{};
  int queries = 0;
  {
    SaUser user{world.sa};
    for (std::uint64_t i = random.below(3); i != 0; --i) {
      queries += user.get_path({.device = device, .port = kPort, .timeout = Duration::seconds(60)},
                               {}, kComponent<PathRecord, "DGID">,
                               [&](const Result<PathRecord>& path) {
                                 fence.expect_open("a path's handler");
                                 EXPECT_FALSE(path);
                                 ++calls;
                               })
                     ? 1
                     : 0;
      dispatch_event({.device = &device, .type = verbs::AsyncEventType::PKeyChange, .port = kPort});
    }
    switch (random.below(3)) {
      case 0:
        world.registry.unregister_device(device);
        break;
      case 1:
        world.registry.unregister_device_queued(device);
        break;
      default:
        if (DeviceReference held = world.registry.get_device_by_index(device.index())) {
          world.registry.unregister_device_and_put(std::move(held));
        } else {
          ADD_FAILURE() << "a registered device is not found";
          world.registry.unregister_device(device);
        }
    }
  }
  fence.is_over = true;
  EXPECT_EQ(calls, queries);
  while (driver.freed == 0) {
    std::this_thread::yield();
  }
}

void look_for_devices(World& world, Random& random) {
  const auto index = static_cast<std::uint32_t>(random.below(8));
  if (const DeviceReference held = world.registry.get_device_by_index(index)) {
    query_caches(*held);
    const std::string name = "named" + std::to_string(random.below(1'000));
    static_cast<void>(world.registry.rename_device(*held, name));  // others may have the name
    static_cast<void>(world.registry.get_device_by_name(name));
  }
  world.registry.for_each_device(nullptr, [](Device& device) { query_caches(device); });
  EXPECT_NE(world.registry.describe(), "");
}

void handle_events(World& world, Random& random) {
  using enum verbs::AsyncEventType;
  constexpr auto kTypes =
      std::to_array({PortActive, PKeyChange, GidChange, ClientReregister, SmChange, DeviceFatal});
  Device& device = world.any_device(random);
  Handler handler{device};
  register_event_handler(handler);
  for (std::uint64_t i = random.below(4); i != 0; --i) {
    dispatch_event(
        {.device = &device, .type = kTypes.at(random.below(kTypes.size())), .port = kPort});
  }
  unregister_event_handler(handler);
  handler.fence.is_over = true;
}

void query_sa(World& world, Random& random) {
  Fence user_fence;
  std::atomic<int> calls{};
  int queries = 0;
  {
    SaUser user{world.sa};
    std::vector<SaQueryId> ids;
    for (std::uint64_t i = random.below(5); i != 0; --i) {
      const SaAsk ask{
          .device = world.device(1), .port = kPort, .timeout = Duration::milliseconds(200)};
      const auto told = [&](const Result<PathRecord>& path) {
        user_fence.expect_open("a path's handler");
        EXPECT_TRUE(!path || path->dlid == Lid{7});
        ++calls;
      };
      const auto query =
          random.chance(1, 2)
              ? user.get_path(ask, {.dgid = world.gid(0), .sgid = world.gid(1)},
                              kComponent<PathRecord, "DGID"> | kComponent<PathRecord, "SGID">, told)
              : user.resolve_path(ask, {.sgid = world.gid(1), .dgid = world.gid(0)}, told);
      if (query) {  // an event may have taken the subnet manager away for a moment
        ++queries;
        ids.push_back(*query);
      }
      if (!ids.empty() && random.chance(1, 3)) {
        user.cancel(ids.at(random.below(ids.size())));
      }
    }
    Fence membership_fence;
    const auto member = user.join(world.device(1), kPort,
                                  {.mgid = kGroup, .join_state = wire::JoinState::FullMember}, 0,
                                  [&](SaMulticast&, const Result<McMemberRecord>&) {
                                    membership_fence.expect_open("a membership's handler");
                                  });
    if (member) {
      user.free(**member);
      membership_fence.is_over = true;
    }
  }
  user_fence.is_over = true;
  EXPECT_EQ(calls, queries);
}

/// A request that looks at the fence of its QP when it is done.
struct Request {
  CompletionHandler handler{.done = done};  // first: found by its address
  const Fence* fence{};
  std::atomic<int>* calls{};
  static void done(Cq& /*cq*/, const Wc& wc) {
    const auto* const self = static_cast<Request*>(static_cast<void*>(wc.handler()));
    self->fence->expect_open("a completion's handler");
    self->calls->fetch_add(1);
  }
};

void connect_qps(World& world, Random& random) {
  constexpr auto kContexts =
      std::to_array({PollContext::SoftIrq, PollContext::WorkQueue, PollContext::UnboundWorkQueue});
  const testing::EndOptions options{.poll_context = kContexts.at(random.below(kContexts.size())),
                                    .depth = 32};
  Fence fence;
  std::atomic<int> calls{};
  std::deque<Request> requests;
  std::array<End, 2> ends;
  for (std::size_t i = 0; i < 2; ++i) {
    testing::open_end(ends.at(i), world.device(i), options);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    testing::connect_end(ends.at(i), EngineNetwork::lid_of(1 - i), ends.at(1 - i).qp->number());
  }
  End& from = ends.at(random.below(2));
  End& to = &from == ends.data() ? ends[1] : ends[0];
  const auto address = std::bit_cast<std::uint64_t>(to.memory.data());
  Mr* const region = *register_user_mr(
      *to.pd, {.start = address, .length = to.memory.size(), .iova = address}, kAll, nullptr);
  std::vector<ScatterEntry> list(9);  // more than a request takes, so that some have no handler
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i] = {.address = std::bit_cast<std::uint64_t>(from.memory.data()) + 128 * i,
               .length = 100};
  }
  RdmaContext context;
  ASSERT_TRUE(context.init(*from.qp, kPort,
                           {.list = list,
                            .remote_address = address,
                            .rkey = region->rkey,
                            .direction = DmaDirection::ToDevice}));
  int posted = 0;
  const auto next = [&]() -> Request& {
    ++posted;
    requests.push_back({.fence = &fence, .calls = &calls});
    return requests.back();
  };
  for (std::uint64_t i = random.below(8); i != 0; --i) {
    SendWr wr;
    wr.wr_id = wr_id_of(next().handler);
    wr.opcode = random.chance(1, 2) ? verbs::WrOpcode::RdmaWrite
                                    : verbs::WrOpcode::Send;  // the peer receives none
    wr.flags = verbs::Send::Signaled;
    EXPECT_TRUE(post_send(*from.qp, wr));
  }
  EXPECT_TRUE(context.post(&next().handler));
  if (random.chance(1, 2)) {
    EXPECT_TRUE(post_recv(*from.qp, {.wr_id = wr_id_of(next().handler)}));
    EXPECT_TRUE(drain_qp(*from.qp));
    EXPECT_EQ(calls, posted);
    fence.is_over = true;
  }
  context.destroy();
  EXPECT_TRUE(destroy_qp(*from.qp));
  EXPECT_TRUE(free_cq(*from.send_cq));
  EXPECT_TRUE(free_cq(*from.recv_cq));
  fence.is_over = true;
  EXPECT_TRUE(deallocate_pd(*from.pd));
  EXPECT_TRUE(deregister_mr(*region));
  testing::close_end(to);
}

void map_regions(World& world, Random& random) {
  Pd* const pd = *allocate_pd(world.any_device(random));
  Mr* const user = *register_user_mr(
      *pd, {.start = world.base, .length = 4 * kPage, .iova = world.base}, kAll, nullptr);
  Mr* const fast =
      *allocate_mr(*pd, random.chance(1, 2) ? MrType::MemoryRegistration : MrType::SgGaps, 16);
  const std::array<ScatterEntry, 2> list{
      {{.address = world.base, .length = kPage},
       {.address = world.base + 5 * kPage, .length = 100}}
  };
  EXPECT_EQ(map_mr_sg(*fast, list, nullptr, kPage).value(), 2U);
  EXPECT_FALSE(deallocate_pd(*pd));  // busy
  EXPECT_TRUE(deregister_mr(*fast));
  EXPECT_TRUE(deregister_mr(*user));
  EXPECT_TRUE(deallocate_pd(*pd));
}

void pin_and_page_memory(World& world, Random& random) {
  const std::uint64_t start = kStart + random.below(kPages / 2) * kPage;
  const std::uint64_t length = (1 + random.below(kPages / 2)) * kPage;
  const auto pinned = get_umem(world.any_device(random), world.space, start, length, kAll);
  EXPECT_TRUE(pinned);
  Fence fence;
  auto paged = *get_odp_umem(world.space, start, length,
                             [&](OdpUmem& umem, std::uint64_t first, std::uint64_t last) {
                               fence.expect_open("an invalidation");
                               EXPECT_LE(umem.start(), first);
                               EXPECT_GE(umem.end(), last);
                             });
  for (std::uint64_t i = random.below(4); i != 0; --i) {
    const auto mapped = paged->map_dma_pages(start, length, kOdpRead, paged->sequence());
    EXPECT_TRUE(mapped || mapped.error().code == ErrorCode::TryAgain);
    const std::uint64_t at = kStart + random.below(kPages) * kPage;
    world.space.invalidate(at, at + kPage);
  }
  paged.reset();
  fence.is_over = true;
}

/// The process's own, of whose changes the operating system tells where it may.
void page_own_memory(World& world, Random& random) {
  if (!random.chance(1, 8)) {  // while one thread changes memory the others' faults wait
    return;
  }
  const std::size_t length = (1 + random.below(8)) * world.own.page_size();
  void* const memory =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto start = std::bit_cast<std::uint64_t>(memory);
  Fence fence;
  auto paged = *get_odp_umem(world.own, start, length,
                             [&](OdpUmem& umem, std::uint64_t first, std::uint64_t last) {
                               fence.expect_open("an invalidation");
                               EXPECT_LE(umem.start(), first);
                               EXPECT_GE(umem.end(), last);
                             });
  for (std::uint64_t i = random.below(4); i != 0; --i) {
    const auto mapped = paged->map_dma_pages(start, length, kOdpAccess, paged->sequence());
    EXPECT_TRUE(mapped || mapped.error().code == ErrorCode::TryAgain);
    *static_cast<volatile char*>(memory) = 'x';
    madvise(memory, length, MADV_DONTNEED);
  }
  if (random.chance(1, 2)) {
    munmap(memory, length);
    EXPECT_TRUE(world.own.settle());
    EXPECT_TRUE(world.own.unheard() != nullptr || paged->mapped_pages() == 0);
    paged.reset();
  } else {
    paged.reset();
    munmap(memory, length);
  }
  fence.is_over = true;
}

/// A pool of the thread's own, or the one of all.
void map_fmrs(World& world, Random& random) {
  Fence fence;
  const bool is_own = random.chance(1, 2);
  FmrPool* pool = world.pool;
  if (is_own) {
    pool = *create_fmr_pool(
        *world.pd, {
                       .region = {.max_pages = 4, .access = kAll},
                       .pool_size = 4,
                       .dirty_watermark = 1,
                       .flush_function =
                           [](FmrPool&  /*pool*/, void* argument) {
                             static_cast<const Fence*>(argument)->expect_open("a flush function");
                                  },
                       .flush_argument = &fence
    });
  }
  for (std::uint64_t i = 1 + random.below(40); i != 0; --i) {
    const std::uint64_t page = world.base + random.below(kPages) * kPage;
    const std::array pages{page};
    const auto mapped = pool->map(pages, page);
    EXPECT_TRUE(mapped || mapped.error().code == ErrorCode::TryAgain);
    if (mapped) {
      EXPECT_NE((*mapped)->fmr().rkey, RKey{});
      pool->unmap(**mapped);
    }
    if (random.chance(1, 16)) {
      EXPECT_TRUE(pool->flush());
    }
  }
  if (is_own) {
    destroy_fmr_pool(*pool);
    fence.is_over = true;
  }
}

constexpr auto kActions = std::to_array<void (*)(World&, Random&)>(
    {register_a_client, register_a_device, look_for_devices, handle_events, query_sa, connect_qps,
     map_regions, pin_and_page_memory, page_own_memory, map_fmrs});

[[nodiscard]] std::chrono::duration<double> wanted_time() {
  constexpr double kOrdinary = 1.5;
  const char* const wanted = std::getenv("WEFT_CHURN_SECONDS");
  return std::chrono::duration<double>{wanted != nullptr ? std::strtod(wanted, nullptr)
                                                         : kOrdinary};
}

TEST(CoreChurn, HoldsEveryFenceWhileEightThreadsDoAllOfItAtRandom) {
  constexpr unsigned kThreads = 8;
  std::array<std::atomic<std::uint64_t>, kActions.size()> done{};
  World world;
  std::atomic<bool> stops{};
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      Random random{id};
      while (!stops) {
        const std::size_t action = random.below(kActions.size());
        kActions.at(action)(world, random);
        ++done.at(action);
      }
    });
  }
  std::this_thread::sleep_for(wanted_time());
  stops = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t action = 0; action < done.size(); ++action) {
    EXPECT_GT(done.at(action), 0U) << "action " << action;
    RecordProperty("action_" + std::to_string(action), std::to_string(done.at(action).load()));
  }
  EXPECT_EQ(world.space.pins(), 0U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(world.device(i).references(), 1U);
    EXPECT_EQ(world.device(i).resource_count(ResourceKind::Qp), 0U);
    EXPECT_EQ(world.device(i).resource_count(ResourceKind::Cq), 0U);
  }
  for (const std::string& line : world.environment.lines()) {
    EXPECT_EQ(line.find("is left"), std::string::npos) << line;
    EXPECT_EQ(line.find("has no handler"), std::string::npos) << line;
    EXPECT_EQ(line.find("still mapped"), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace weft::core
