#include "host/process.h"

#include <cstdlib>
#include <utility>

#include "base/process_slot.h"
#include "host/process_impl.h"
#include "os/fork_boundary.h"
#include "os/run_directory.h"

namespace weft::host {
namespace {

/// The host of a program that a launcher runs as one rank a host, by the variables of launchers.
[[nodiscard]] std::string host_of_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(variable); rank != nullptr && *rank != '\0') {
      return fmt::format("h{}", std::strtoul(rank, nullptr, 10) + 1);
    }
  }
  return "h1";
}

/// Cross memory attach, as MPI libraries call process_vm_writev(2).
constexpr std::string_view kCalls = "cma";

[[nodiscard]] hca::PlacementPolicy placement_by(std::string_view name) {
  return name == "auto"                       ? hca::PlacementPolicy::WhereQuicker
         : name == "direct" || name == kCalls ? hca::PlacementPolicy::Always
                                              : hca::PlacementPolicy::Never;
}

}  // namespace

ProcessOptions options_of_environment() {
  const char* const host = std::getenv("WEFT_HOST");
  const char* const chosen = std::getenv("WEFT_PLACEMENT");
  const std::string_view placement = chosen != nullptr ? chosen : "auto";
  return {.run = os::run_directory_path(),
          .fabric = os::fabric_of_environment(),
          .host = host != nullptr && *host != '\0' ? std::string{host} : host_of_rank(),
          .limits = {},
          .placement = placement_by(placement),
          .shares_pages = placement != kCalls};
}

Process::Process(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

/// The child of a fork() has neither thread, and the parent's are not its own to stop.
Process::~Process() {
  if (!os::is_child_of_fork()) {
    impl_->page_sharing.end();
    impl_->delivery.finish();
    impl_->thread.request_stop();
    impl_->daemon.stop();
    impl_->thread.stop();
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

uabi::ProcessAddress Process::address() const { return impl_->daemon.self(); }
std::span<const HostHca> Process::hcas() const { return impl_->hcas.descriptions(); }

void Process::note_region(const hca::MemoryRegion& region) {
  const bool is_remote = region.access.has(hca::Access::RemoteWrite) ||
                         region.access.has(hca::Access::RemoteRead) ||
                         region.access.has(hca::Access::RemoteAtomic);
  if (is_remote && region.memory != nullptr && !region.access.has(hca::Access::OnDemand)) {
    impl_->page_sharing.share(&region, {region.memory, region.length});
    impl_->placements.hold_file(&region, {region.memory, region.length});
  }
}

void Process::forget_region(const void* region) {
  impl_->placements.forget(region);
  impl_->page_sharing.forget(region);
}

void Process::start_daemon_events() { impl_->daemon.start_daemon_events(); }

bool Process::is_fabric_gone() const { return impl_->daemon.has_ended(); }

void Process::report_if_fabric_gone() { impl_->daemon.tell_if_gone(); }

Result<ManagedPort> Process::managed_port(std::uint32_t hca, PortNumber port) const {
  return ask_managed_port(impl_->options, hcas()[hca].name, port);
}

bool Process::has_captures() const { return !impl_->taps.is_empty(); }

fabric::PortRecord Process::port_record(std::uint32_t hca, PortNumber port) const {
  impl_->daemon.hear_pending();
  const fabric::NodeIndex own_node{address().node};
  return impl_->map.ask([&](const fabric::TablesView& view) {
    const auto index = view.find_port(own_node, port, hca);
    return view.port(index.value_or(view.node(own_node).first_port));
  });
}

// --- CQs, QPs and SRQs

Result<hca::CompletionQueue*> Process::create_cq(std::uint32_t hca, std::uint32_t capacity,
                                                 const hca::CompletionQueueOptions& options) {
  return impl_->objects.create_cq(hca, capacity, options);
}

Result<void> Process::retire_cq(hca::CompletionQueue& cq) { return impl_->objects.retire_cq(cq); }

Result<void> Process::destroy_cq(std::uint32_t hca, hca::CompletionQueue& cq) {
  return impl_->objects.destroy_cq(hca, cq);
}

Result<hca::SharedReceiveQueue*> Process::create_xrc_srq(
    std::uint32_t hca, hca::ProtectionDomain& pd, hca::XrcDomain& domain, hca::CompletionQueue& cq,
    std::uint32_t depth, std::uint32_t max_sge) {
  return impl_->objects.create_xrc_srq(hca, pd, domain, cq, depth, max_sge);
}

Result<void> Process::destroy_xrc_srq(std::uint32_t hca, hca::SharedReceiveQueue& srq) {
  return impl_->objects.destroy_xrc_srq(hca, srq);
}

Result<hca::Qp*> Process::create_qp(std::uint32_t hca, const hca::QpInit& init) {
  return impl_->objects.create_qp(hca, init);
}

Result<void> Process::destroy_qp(std::uint32_t hca, hca::Qp& qp) {
  return impl_->objects.destroy_qp(hca, qp);
}

Result<void> Process::modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                hca::QpAttributeMask mask) {
  return impl_->objects.modify_qp(qp, attributes, mask);
}

Result<void> Process::attach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid, Lid mlid) {
  return impl_->objects.attach_multicast(hca, qp, mgid, mlid);
}

Result<void> Process::detach_multicast(std::uint32_t hca, hca::Qp& qp, const Gid& mgid, Lid mlid) {
  return impl_->objects.detach_multicast(hca, qp, mgid, mlid);
}

// --- the data path

Result<void> Process::post_send(hca::Qp& qp, const hca::SendWr& wr) {
  return impl_->sender.post(*static_cast<QpDriverState*>(qp.driver_data), wr);
}

void Process::kick(hca::Qp& qp) {
  impl_->sender.settle(*static_cast<QpDriverState*>(qp.driver_data));
}

void Process::make_progress(hca::CompletionQueue& cq) {
  impl_->poller.poll(*static_cast<CqDriverState*>(cq.driver_data));
}

void Process::before_application_waits() { impl_->progress.sleeper.end_lease(); }

std::uint32_t Process::packets_under_way() const {
  return impl_->links.delayed.load(std::memory_order_relaxed);
}

void Process::finish_sending() { impl_->delivery.finish(); }

// --- objects that several processes share

Result<hca::XrcDomain*> Process::open_xrc_domain(std::uint32_t hca, int fd, bool creates,
                                                 bool is_exclusive) {
  return impl_->xrc_domains.open(hca, fd, creates, is_exclusive);
}

Result<void> Process::close_xrc_domain(std::uint32_t hca, hca::XrcDomain& domain) {
  return impl_->xrc_domains.close(hca, domain);
}

Result<hca::Qp*> Process::open_target(const hca::XrcDomain& domain, Qpn target) {
  if (domain.name == 0 || slot_of(target) == address().slot) {
    return impl_->shared_targets.open_again(domain.name, target);
  }
  const auto opened = impl_->peer_targets.open(domain.name, target);
  return opened ? Result<hca::Qp*>{nullptr} : std::unexpected(opened.error());
}

void Process::close_target(std::uint32_t domain, Qpn target) {
  impl_->peer_targets.close(domain, target);
}

Result<void> Process::modify_target(std::uint32_t domain, Qpn target,
                                    const hca::QpAttributes& attributes,
                                    hca::QpAttributeMask mask) {
  return impl_->peer_targets.modify(domain, target, attributes, mask);
}

Result<hca::QpAttributes> Process::query_target(std::uint32_t domain, Qpn target) {
  return impl_->peer_targets.query(domain, target);
}

Result<void> Process::release_target(std::uint32_t hca, hca::Qp& target) {
  return impl_->shared_targets.release(target) ? impl_->objects.destroy_qp(hca, target)
                                               : Result<void>{};
}

void Process::share_device(std::uint32_t hca, int command) {
  impl_->imports.share_device(hca, command);
}

void Process::unshare_device(std::uint32_t hca, int command) {
  impl_->imports.unshare_device(hca, command);
}

Result<ImportedDevice> Process::import_device(int command) {
  return impl_->imports.import_device(command);
}

void Process::leave_device(const ImportedDevice& device) { impl_->imports.leave_device(device); }

Result<uabi::ObjectAnswer> Process::ask_for_object(const ImportedDevice& device,
                                                   uabi::ImportVerb verb, std::uint32_t handle) {
  return impl_->imports.ask_for_object(device, verb, handle);
}

}  // namespace weft::host
