#pragma once

// The parts of one process, without a daemon and without threads: QPs of h1 of a pair that send to
// each other. The test is whoever looks at rings, and decides when.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fabric/counters.h"
#include "fabric/departure_clocks.h"
#include "fabric/faults.h"
#include "fabric/testing/test_routes.h"
#include "host/process_impl.h"
#include "host/testing/fake_process.h"
#include "os/shared_memory.h"
#include "verbs/mtu.h"

namespace weft::host::testing {

class LocalProcess {
 public:
  static constexpr uabi::ProcessAddress kSelf{.node = 0, .slot = 1};

  LocalProcess() : builder(fabric::generate_pair()), parts(program) {
    EXPECT_TRUE(fabric::testing::TestRoutes{builder}.bring_up());
    publish_tables();
    parts.counters.memory = map(fabric::CounterPage::bytes_needed());
    parts.counters.page = fabric::CounterPage::format(parts.counters.memory.bytes());
    parts.clock_memory = map(fabric::DepartureClocks::bytes_needed(64));
    parts.links.clocks = fabric::DepartureClocks::open(parts.clock_memory.bytes());
    parts.fault_memory = map(fabric::FaultCounters::bytes_needed());
    parts.links.faults = fabric::FaultCounters::open(parts.fault_memory.bytes());
    parts.progress.sleeper.attach(attention_);
    parts.hcas.open(parts.map, kSelf, {}, {}, [this](std::uint32_t hca) {
      return std::make_unique<HcaEventRelay>(
          hca, HcaEventRelay::Parts{.program = program,
                                    .daemon = parts.daemon,
                                    .key_violations = parts.key_violations,
                                    .held_events = parts.held_events,
                                    .map = parts.map,
                                    .placements = parts.placements,
                                    .shared_targets = parts.shared_targets});
    });
    parts.ports.open(kSelf.node);
    parts.lanes.open(kSelf, std::move(*PairMemory::reserve()));
    pd = *engine().allocate_pd();
    region = *engine().register_memory(
        *pd, address(), memory,
        hca::AccessFlags{hca::Access::LocalWrite} | hca::Access::RemoteWrite);
    cq = *engine().create_cq(1'024, {});
    parts.qps.add_cq(*cq);
  }
  ~LocalProcess() {
    for (hca::Qp* const qp : qps_) {
      auto* const qp_state = static_cast<QpDriverState*>(qp->driver_data);
      station::WaitQueue::leave(*qp_state);
      parts.timers.remove(*qp_state);
      EXPECT_TRUE(engine().destroy_qp(*qp));
      parts.qps.remove(*qp);
    }
  }
  LocalProcess(const LocalProcess&) = delete;
  LocalProcess& operator=(const LocalProcess&) = delete;

  [[nodiscard]] hca::Hca& engine() { return parts.hcas.engine(0); }
  [[nodiscard]] Lid lid() { return engine().port(PortNumber{1}).lid; }
  [[nodiscard]] static QpDriverState& state_of(hca::Qp& qp) {
    return *static_cast<QpDriverState*>(qp.driver_data);
  }
  [[nodiscard]] Lane& lane_of(hca::Qp& qp) { return *state_of(qp).lane.load(); }

  hca::Qp& make_qp(hca::QpType type = hca::QpType::Rc) {
    hca::QpInit init;
    init.type = type;
    init.pd = pd;
    init.send_cq = init.recv_cq = cq;
    init.signal_all = true;
    init.capabilities = {.max_send_wr = 512,
                         .max_recv_wr = 512,
                         .max_send_sge = 1,
                         .max_recv_sge = 1,
                         .max_inline_data = 64};
    hca::Qp& qp = **engine().create_qp(init);
    parts.qps.add(qp, 0, init);
    qps_.push_back(&qp);
    return qp;
  }

  /// As a program does it.
  void destroy(hca::Qp& qp) {
    const auto destroyed = parts.objects.destroy_qp(0, qp);
    EXPECT_TRUE(destroyed) << destroyed.error().reason;
    std::erase(qps_, &qp);
  }

  /// To RTS, and to its lane. `timeout` and `retries` of its retry timer.
  void connect(hca::Qp& qp, Qpn peer, std::uint8_t timeout = 14, std::uint8_t retries = 7) {
    using hca::QpAttribute;
    using Mask = hca::QpAttributeMask;
    hca::QpAttributes to;
    to.port = PortNumber{1};
    to.access = hca::AccessFlags{hca::Access::RemoteWrite};
    to.path_mtu = verbs::Mtu::Mtu4096;
    to.dest_qpn = peer;
    to.address.dlid = lid();
    to.address.port = PortNumber{1};
    to.timeout = TimeoutExponent{timeout};
    to.retry_count = retries;
    to.rnr_retry = 7;
    to.max_rd_atomic = to.max_dest_rd_atomic = 1;
    const auto modify = [&](hca::QpState state, Mask mask) {
      to.state = state;
      const auto modified = qp.modify(to, mask | QpAttribute::State);
      EXPECT_TRUE(modified) << modified.error().reason;
    };
    modify(hca::QpState::Init,
           Mask{QpAttribute::PKeyIndex} | QpAttribute::Port | QpAttribute::RemoteAccess);
    modify(hca::QpState::Rtr, Mask{QpAttribute::AddressVector} | QpAttribute::PathMtu |
                                  QpAttribute::DestQpn | QpAttribute::RqPsn |
                                  QpAttribute::MaxDestRdAtomic | QpAttribute::MinRnrTimer);
    modify(hca::QpState::Rts, Mask{QpAttribute::Timeout} | QpAttribute::RetryCount |
                                  QpAttribute::RnrRetry | QpAttribute::SqPsn |
                                  QpAttribute::MaxQpRdAtomic);
    EXPECT_TRUE(parts.binder.bind(state_of(qp)));
  }

  void post(hca::Qp& qp, hca::WrOpcode opcode, std::uint32_t length = 8) {
    const hca::Sge sge{.address = address(), .length = length, .lkey = region->lkey};
    hca::SendWr wr;
    wr.opcode = opcode;
    wr.sges = {&sge, 1};
    wr.remote_address = address() + memory.size() / 2;
    wr.rkey = region->rkey;
    const auto posted = parts.sender.post(state_of(qp), wr);
    EXPECT_TRUE(posted) << posted.error().reason;
  }
  void receive(hca::Qp& qp, std::uint32_t length = 8) {
    const hca::Sge sge{
        .address = address() + memory.size() / 2, .length = length, .lkey = region->lkey};
    EXPECT_TRUE(qp.post_recv({
        .wr_id = 1, .sges = {&sge, 1}
    }));
  }
  /// Takes a batch of requests, then one of responses, from every lane.
  void deliver() {
    for (std::size_t i = 0; i < parts.lanes.count(); ++i) {
      parts.receiver.take_requests(*parts.lanes[i], RecordFilter::All);
    }
    for (std::size_t i = 0; i < parts.lanes.count(); ++i) {
      parts.receiver.take_responses(*parts.lanes[i]);
    }
  }
  [[nodiscard]] std::vector<hca::Wc> completions() {
    std::vector<hca::Wc> all(1'024);
    all.resize(cq->poll(all));
    return all;
  }

  /// Publishes the tables as `builder` has them, as a daemon would.
  [[nodiscard]] os::UniqueFd next_tables() {
    return std::move(*os::publish_memory("tables", builder.build(++generation_)));
  }
  void publish_tables() {
    EXPECT_TRUE(parts.map.replace(std::move(*os::map_published(next_tables(), kMaxTablesBytes))));
  }

  fabric::TablesBuilder builder;
  FakeProgram program;
  std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{1} << 20);
  Process::Impl parts;
  hca::ProtectionDomain* pd{};
  hca::MemoryRegion* region{};
  hca::CompletionQueue* cq{};

 private:
  [[nodiscard]] std::uint64_t address() const {
    std::uint64_t value{};
    const std::byte* const start = memory.data();
    std::memcpy(&value, &start, sizeof value);
    return value;
  }
  [[nodiscard]] static os::Mapping map(std::size_t bytes) {
    const auto file = os::create_shared_memory("test", bytes);
    return std::move(*os::map_shared(*file, os::Protection::ReadWrite, bytes, bytes));
  }

  std::uint64_t generation_{};
  AttentionPage attention_;
  std::vector<hca::Qp*> qps_;
};

}  // namespace weft::host::testing
