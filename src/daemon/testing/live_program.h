#pragma once

// Programs of a live fabric, all in the process of the test.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/testing/live_fabric.h"
#include "hca/hca.h"
#include "host/process.h"
#include "os/clock.h"
#include "verbs/mtu.h"

namespace weft::daemon::testing {

class NoEvents final : public host::ProcessEvents {
 public:
  void completion_event(std::uint32_t, hca::CompletionQueue&) override {
    if (at_completion) {
      at_completion();
    }
  }
  void async_event(std::uint32_t, const hca::AsyncEvent& event) override {
    device_fatal += event.type == hca::AsyncEventType::DeviceFatal ? 1 : 0;
    lid_change += event.type == hca::AsyncEventType::LidChange ? 1 : 0;
    path_migrated += event.type == hca::AsyncEventType::PathMigrated ? 1 : 0;
  }
  void target_event(std::uint32_t, Qpn target, hca::AsyncEventType type) override {
    const std::lock_guard guard{lock};
    target_events.emplace_back(target, type);
  }
  [[nodiscard]] bool explains_errors() const override { return true; }
  void explain(std::string_view reason) override {
    const std::lock_guard guard{lock};
    reasons += std::string{reason} + "\n";
  }
  void fabric_gone(std::string_view reason) override {
    const std::lock_guard guard{lock};
    gone.emplace_back(reason);
  }
  [[nodiscard]] std::vector<std::string> reported_gone() {
    const std::lock_guard guard{lock};
    return gone;
  }
  std::function<void()> at_completion;  // set before a CQ is armed
  std::string reasons;
  std::mutex lock;
  std::vector<std::string> gone;
  std::vector<std::pair<Qpn, hca::AsyncEventType>> target_events;
  std::atomic<int> device_fatal{0};
  std::atomic<int> path_migrated{0};
  std::atomic<int> lid_change{0};
};

/// A program with registered memory and two RC QPs, of which most tests use one.
struct Program {
  explicit Program(const host::ProcessOptions& options)
      : process(std::move(*host::Process::open(options, events))),
        engine(*process->hcas().front().engine),
        memory(1 << 20) {
    pd = *engine.allocate_pd();
    cq = *process->create_cq(0, 1'024);  // more than all QPs of a test have outstanding
    region = *engine.register_memory(*pd, address(), memory,
                                     hca::AccessFlags{hca::Access::LocalWrite} |
                                         hca::Access::RemoteWrite | hca::Access::RemoteRead |
                                         hca::Access::RemoteAtomic);
    init.pd = pd;
    init.send_cq = init.recv_cq = cq;
    init.signal_all = true;
    init.capabilities = {.max_send_wr = 64,
                         .max_recv_wr = 64,
                         .max_send_sge = 1,
                         .max_recv_sge = 1,
                         .max_inline_data = 64};
    qp = *process->create_qp(0, init);
    bulk_qp = *process->create_qp(0, init);
  }
  ~Program() {
    EXPECT_TRUE(process->destroy_qp(0, *qp));
    EXPECT_TRUE(process->destroy_qp(0, *bulk_qp));
  }

  [[nodiscard]] std::uint64_t address() const {
    std::uint64_t value{};
    const std::byte* const start = memory.data();
    std::memcpy(&value, &start, sizeof value);
    return value;
  }
  [[nodiscard]] Lid lid() const { return engine.port(PortNumber{1}).lid; }

  void connect(Lid peer_lid, Qpn peer, std::uint8_t timeout = 14, std::uint8_t retries = 7) {
    connect(*qp, peer_lid, peer, timeout, retries);
  }
  void connect(hca::Qp& which, Lid peer_lid, Qpn peer, std::uint8_t timeout, std::uint8_t retries) {
    const auto modify = [&](const hca::QpAttributes& to, hca::QpAttributeMask mask) {
      const auto modified = process->modify_qp(which, to, mask);
      EXPECT_TRUE(modified) << modified.error().reason;
    };
    hca::QpAttributes to;
    to.state = hca::QpState::Init;
    to.port = PortNumber{1};
    to.access = hca::AccessFlags{hca::Access::RemoteWrite} | hca::Access::RemoteRead |
                hca::Access::RemoteAtomic;
    modify(to, hca::QpAttributeMask{hca::QpAttribute::State} | hca::QpAttribute::PKeyIndex |
                   hca::QpAttribute::Port | hca::QpAttribute::RemoteAccess);
    to.state = hca::QpState::Rtr;
    to.path_mtu = verbs::Mtu::Mtu4096;
    to.dest_qpn = peer;
    to.max_dest_rd_atomic = 4;
    to.min_rnr_timer = 1;
    to.address.dlid = peer_lid;
    to.address.port = PortNumber{1};
    modify(to, hca::QpAttributeMask{hca::QpAttribute::State} | hca::QpAttribute::AddressVector |
                   hca::QpAttribute::PathMtu | hca::QpAttribute::DestQpn | hca::QpAttribute::RqPsn |
                   hca::QpAttribute::MaxDestRdAtomic | hca::QpAttribute::MinRnrTimer);
    to.state = hca::QpState::Rts;
    to.timeout = TimeoutExponent{timeout};
    to.retry_count = retries;
    to.rnr_retry = 7;
    to.max_rd_atomic = 4;
    modify(to, hca::QpAttributeMask{hca::QpAttribute::State} | hca::QpAttribute::Timeout |
                   hca::QpAttribute::RetryCount | hca::QpAttribute::RnrRetry |
                   hca::QpAttribute::SqPsn | hca::QpAttribute::MaxQpRdAtomic);
  }

  void post(hca::WrOpcode opcode, std::size_t offset, std::uint32_t length,
            std::uint64_t remote_address = 0, RKey rkey = {}) {
    post(*qp, opcode, offset, length, remote_address, rkey);
  }
  void post(hca::Qp& which, hca::WrOpcode opcode, std::size_t offset, std::uint32_t length,
            std::uint64_t remote_address = 0, RKey rkey = {}) {
    const hca::Sge sge{.address = address() + offset, .length = length, .lkey = region->lkey};
    hca::SendWr wr;
    wr.opcode = opcode;
    wr.sges = {&sge, 1};
    wr.remote_address = remote_address;
    wr.rkey = rkey;
    const auto posted = which.post_send(wr);
    EXPECT_TRUE(posted) << posted.error().reason;
    process->kick(which);
  }
  void receive(std::size_t offset, std::uint32_t length) {
    const hca::Sge sge{.address = address() + offset, .length = length, .lkey = region->lkey};
    EXPECT_TRUE(qp->post_recv({
        .wr_id = 1, .sges = {&sge, 1}
    }));
  }

  /// The next completion, within a bound.
  hca::Wc wait() {
    hca::Wc wc;
    wc.status = hca::WcStatus::GeneralError;
    const Instant deadline = os::now() + Duration::seconds(20);
    while (cq->poll({&wc, 1}) == 0) {
      process->make_progress(*cq);
      if (os::now() > deadline) {
        ADD_FAILURE() << "no completion within 20 s\n" << events.reasons;
        break;
      }
    }
    return wc;
  }

  NoEvents events;
  std::unique_ptr<host::Process> process;
  hca::Hca& engine;
  std::vector<std::byte> memory;
  hca::ProtectionDomain* pd{};
  hca::CompletionQueue* cq{};
  hca::MemoryRegion* region{};
  hca::QpInit init;
  hca::Qp* qp{};
  hca::Qp* bulk_qp{};
};

inline void fill(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
}

}  // namespace weft::daemon::testing
