#include "host/process.h"

#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "host/process_impl.h"
#include "os/clock.h"
#include "os/fork_boundary.h"
#include "os/run_directory.h"

namespace weft::host {
namespace {

/// Rank variables of launchers, for programs that run as one rank a host.
[[nodiscard]] std::string host_of_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(variable); rank != nullptr && *rank != '\0') {
      return fmt::format("h{}", std::strtoul(rank, nullptr, 10) + 1);
    }
  }
  return "h1";
}

}  // namespace

ProcessOptions options_of_environment() {
  const char* const host = std::getenv("WEFT_HOST");
  return {.run = os::run_directory_path(),
          .fabric = os::fabric_of_environment(),
          .host = host != nullptr && *host != '\0' ? std::string{host} : host_of_rank(),
          .limits = {}};
}

Process::Process(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Process::~Process() {
  if (!os::is_child_of_fork()) {
    impl_->finish_sending();
    impl_->stop_threads();
  }
}

Process::Impl::~Impl() {
  qps.for_each([](hca::Qp&, QpDriverState& qp_state) { station::WaitQueue::leave(qp_state); });
}

Result<std::unique_ptr<Process>> Process::open(const ProcessOptions& options,
                                               ProcessEvents& events) {
  auto impl = std::make_unique<Impl>(events);
  if (auto attached = impl->attach(options); !attached) {
    return std::unexpected(attached.error());
  }
  os::mark_fork_boundary();
  return std::unique_ptr<Process>{new Process{std::move(impl)}};
}

uabi::ProcessAddress Process::address() const { return impl_->self; }
std::span<const HostHca> Process::hcas() const { return impl_->hcas; }

fabric::PortRecord Process::port_record(std::uint32_t hca, PortNumber port) const {
  impl_->connection.hear_pending();
  return impl_->map.ask([&](const fabric::TablesView& view) {
    const fabric::NodeRecord& node = view.node(fabric::NodeIndex{impl_->self.node});
    const auto index = view.find_port(fabric::NodeIndex{impl_->self.node}, port, hca);
    return view.port(index.value_or(node.first_port));
  });
}

Result<hca::CompletionQueue*> Process::create_cq(std::uint32_t hca, std::uint32_t capacity,
                                                 const hca::CompletionQueueOptions& options) {
  auto cq = impl_->slots.at(hca)->engine->create_cq(capacity, options);
  if (cq) {
    impl_->qps.add_cq(**cq);
  }
  return cq;
}

Result<void> Process::destroy_cq(std::uint32_t hca, hca::CompletionQueue& cq) {
  const std::lock_guard owner{
      impl_->progress.maintenance_owner};  // or the end of a period could be at it
  auto& qp_state = *static_cast<CqDriverState*>(cq.driver_data);
  if (auto destroyed = impl_->slots.at(hca)->engine->destroy_cq(cq); !destroyed) {
    return destroyed;
  }
  impl_->held_events.remove(qp_state);
  impl_->qps.remove_cq(cq);
  return {};
}

Result<hca::SharedReceiveQueue*> Process::create_xrc_srq(
    std::uint32_t hca, hca::ProtectionDomain& pd, hca::XrcDomain& domain, hca::CompletionQueue& cq,
    std::uint32_t depth, std::uint32_t max_sge) {
  auto srq = impl_->slots.at(hca)->engine->create_xrc_srq(pd, domain, cq, depth, max_sge);
  if (srq) {
    impl_->qps.add_xrc_srq(**srq, cq);
  }
  return srq;
}

Result<void> Process::destroy_xrc_srq(std::uint32_t hca, hca::SharedReceiveQueue& srq) {
  const QuiesceGuard quiesced{*impl_};  // or fail_qps could be at it
  if (auto destroyed = impl_->slots.at(hca)->engine->destroy_srq(srq); !destroyed) {
    return destroyed;
  }
  impl_->qps.remove_xrc_srq(srq);
  return {};
}

Result<hca::Qp*> Process::create_qp(std::uint32_t hca, const hca::QpInit& init) {
  if (impl_->connection.is_gone()) {
    return std::unexpected(impl_->connection.gone());
  }
  impl_->start_threads();
  auto qp = impl_->slots.at(hca)->engine->create_qp(init);
  if (!qp) {
    return qp;
  }
  impl_->qps.add(**qp, hca, init);
  impl_->shared_targets.note(hca, **qp);
  return qp;
}

Result<void> Process::destroy_qp(std::uint32_t hca, hca::Qp& qp) {
  return impl_->destroy_qp(hca, qp);
}

/// An HCA has sent what was posted long before its program destroys the QP, and waits for no lanes:
/// programs that send datagrams do not ask for their completion (mckey). For a moment; policy.
void Process::Impl::flush_datagrams(hca::Qp& qp) {
  constexpr Duration kWaitLimit = Duration::seconds(1);
  if (qp.type() != hca::QpType::Ud) {
    return;
  }
  const Instant until = os::now() + kWaitLimit;
  while (qp.needs_transmit() && os::now() < until) {
    resume_waiting();
    std::this_thread::yield();
  }
}

Result<void> Process::Impl::destroy_qp(std::uint32_t hca, hca::Qp& qp) {
  flush_datagrams(qp);
  // Nobody is in the middle of delivering to it, carrying for it or timing it.
  const QuiesceGuard quiesced{*this};
  auto* const qp_state = static_cast<QpDriverState*>(qp.driver_data);
  send_pending_responses(*qp_state);
  if (auto destroyed = slots.at(hca)->engine->destroy_qp(qp); !destroyed) {
    return destroyed;
  }
  station::WaitQueue::leave(*qp_state);
  timers.remove(*qp_state);
  qps.remove(qp);
  return {};
}

namespace {

/// A connection migrates between paths of two HCAs: its lane, which stays, leads to one node
/// (docs/ARCHITECTURE.md, decision 3).
[[nodiscard]] Result<void> check_alternate_path(const FabricMap& map, const hca::QpAttributes& now,
                                                const hca::QpAttributes& asked,
                                                hca::QpAttributeMask mask) {
  if (!mask.has(hca::QpAttribute::AlternatePath)) {
    return {};
  }
  const Lid primary = (mask.has(hca::QpAttribute::AddressVector) ? asked : now).address.dlid;
  const Lid alternate = asked.alternate_address.dlid;
  const auto primary_node = map.node_of(primary);
  const auto alternate_node = map.node_of(alternate);
  return !primary_node || !alternate_node || primary_node == alternate_node
             ? Result<void>{}
             : fail(ErrorCode::InvalidArgument,
                    "LID {} of the alternate path is another node's than LID {} of the primary one",
                    alternate.value(), primary.value());
}

}  // namespace

Result<void> Process::modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                hca::QpAttributeMask mask) {
  return impl_->modify_qp(qp, attributes, mask);
}

Result<void> Process::Impl::modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                      hca::QpAttributeMask mask) {
  if (auto checked = check_alternate_path(map, qp.query(), attributes, mask); !checked) {
    return checked;
  }
  if (auto modified = qp.modify(attributes, mask); !modified) {
    return modified;
  }
  auto* const qp_state = static_cast<QpDriverState*>(qp.driver_data);
  if (mask.has(hca::QpAttribute::DestQpn) || mask.has(hca::QpAttribute::AddressVector)) {
    bind(*qp_state);
  }
  if (mask.has(hca::QpAttribute::Port)) {
    move_memberships(*qp_state);
  }
  settle(*qp_state);
  if (connection.is_gone()) {
    hca::QpAttributes error;
    error.state = hca::QpState::Err;
    const bool was_usable = qp.query().state != hca::QpState::Err &&
                            qp.modify(error, hca::QpAttribute::State).has_value();
    if (was_usable) {
      return std::unexpected(connection.gone());
    }
  }
  return {};
}

void Process::kick(hca::Qp& qp) { impl_->settle(*static_cast<QpDriverState*>(qp.driver_data)); }

Result<void> Process::post_send(hca::Qp& qp, const hca::SendWr& wr) {
  return impl_->post(*static_cast<QpDriverState*>(qp.driver_data), wr);
}

std::uint32_t Process::packets_under_way() const {
  return impl_->links.delayed.load(std::memory_order_relaxed);
}

void Process::start_daemon_events() { impl_->connection.start_daemon_events(); }

void Process::report_if_fabric_gone() { impl_->connection.tell_if_gone(); }

void Process::finish_sending() { impl_->finish_sending(); }

void Process::make_progress(hca::CompletionQueue& cq) {
  impl_->poll(*static_cast<CqDriverState*>(cq.driver_data));
}

void Process::before_application_waits() { impl_->progress.sleeper.end_lease(); }

}  // namespace weft::host
