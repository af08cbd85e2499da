#include "host/foreign/xrc_domains.h"

#include <fcntl.h>

#include <utility>

namespace weft::host {

Result<hca::XrcDomain*> XrcDomains::open(std::uint32_t hca, int fd, bool creates,
                                         bool is_exclusive) {
  const auto name = ask(hca, fd, creates, is_exclusive);
  if (!name) {
    return std::unexpected(name.error());
  }
  {
    const std::lock_guard guard{lock_};
    if (const auto known = domains_.find(*name); known != domains_.end()) {
      known->second.is_left = false;  // kept because other processes have target QPs open
      return known->second.engine;
    }
  }
  auto engine = objects_.engine(hca).open_xrc_domain(*name);
  if (!engine) {
    daemon_.post(uabi::CloseXrcDomain{.domain = *name});
    return engine;
  }
  const std::lock_guard guard{lock_};
  domains_[*name] = {.hca = hca, .engine = *engine, .is_left = false};
  return engine;
}

/// Returns its name, from the daemon.
Result<std::uint32_t> XrcDomains::ask(std::uint32_t hca, int fd, bool creates, bool is_exclusive) {
  os::UniqueFd file{fcntl(fd, F_DUPFD_CLOEXEC, 0)};
  if (!file) {
    return fail(ErrorCode::InvalidArgument, "descriptor {} of an XRC domain is not open", fd);
  }
  objects_.start_serving();  // proxy QPs here need both threads
  const auto answer = questions_.ask(
      {},
      [&](std::uint32_t serial) {
        daemon_.post(
            uabi::OpenXrcDomain{
                .request = serial, .hca = hca, .creates = creates, .is_exclusive = is_exclusive},
            std::move(file));
      },
      [this] { return daemon_.is_gone(); });
  if (!answer) {
    return daemon_.is_gone() ? std::unexpected(daemon_.gone())
                             : fail(ErrorCode::TimedOut, "the daemon does not answer");
  }
  if (answer->domain == 0) {
    return fail(answer->may_retry ? ErrorCode::TryAgain : ErrorCode::InvalidArgument, "{}",
                answer->reason);
  }
  return answer->domain;
}

void XrcDomains::handle(const uabi::XrcDomainOpened& answer) {
  const bool is_awaited = questions_.answer(answer.request, answer, [](Nothing) { return true; });
  if (!is_awaited && answer.domain != 0) {
    daemon_.post(uabi::CloseXrcDomain{.domain = answer.domain});  // the requester no longer waits
  }
}

Result<void> XrcDomains::close(std::uint32_t hca, hca::XrcDomain& domain) {
  if (domain.name == 0) {
    return objects_.engine(hca).close_xrc_domain(domain);
  }
  const std::lock_guard guard{lock_};
  const std::size_t others = proxies_.count(domain.name) + targets_.orphans_of(domain.name);
  if (domain.uses.load(std::memory_order_acquire) != others) {
    return fail(ErrorCode::Busy, "XRC SRQs or target QPs of the domain still exist");
  }
  domains_.at(domain.name).is_left = true;
  close_if_unused(domain.name);
  return {};
}

/// Closes the domain unless another process has one of its target QPs open. Caller must hold the
/// lock.
void XrcDomains::close_if_unused(std::uint32_t name) {
  const auto found = domains_.find(name);
  if (found == domains_.end() || !found->second.is_left || targets_.orphans_of(name) != 0) {
    return;
  }
  const Domain domain = found->second;
  domains_.erase(found);  // from now on no process gets a proxy QP
  proxies_.end_of_domain(name);
  daemon_.post(uabi::CloseXrcDomain{.domain = name});
  static_cast<void>(objects_.engine(domain.hca).close_xrc_domain(*domain.engine));
}

void XrcDomains::handle(const uabi::XrcRelay& message) {
  const std::lock_guard guard{lock_};
  switch (message.action) {
    case uabi::XrcMessage::RequestProxy:
      make_proxy(message);
      return;
    case uabi::XrcMessage::ProxiesReleased:
      proxies_.end_of_target(message.domain, message.peer, message.target);
      return;
    case uabi::XrcMessage::PeerGone:
      proxies_.end_of_process(message.domain, message.peer);
      return;
    case uabi::XrcMessage::Proxy:
    case uabi::XrcMessage::NoProxy:
      return;  // the response to a request of this process's own targets
  }
}

/// For a process that has the domain open, according to the daemon. Caller must hold the lock.
void XrcDomains::make_proxy(const uabi::XrcRelay& question) {
  const auto found = domains_.find(question.domain);
  if (found == domains_.end()) {
    uabi::XrcRelay none = question;
    none.action = uabi::XrcMessage::NoProxy;
    daemon_.post(none);
    return;
  }
  daemon_.post(
      proxies_.make(question, daemon_.self().slot, found->second.hca, *found->second.engine));
}

/// Targets that no program has open any more are destroyed, and so is the domain if its program has
/// closed it. The lock is held throughout, so a concurrent close finds them either here or
/// destroyed.
void XrcDomains::remove_opener(uabi::ProcessAddress peer, std::uint32_t domain,
                               std::optional<Qpn> target) {
  const std::lock_guard guard{lock_};
  const auto left = targets_.remove_opener(peer, domain, target);
  for (const SharedTargets::Left& each : left) {
    static_cast<void>(objects_.destroy_qp(each.hca, *each.qp));
  }
  if (!left.empty()) {
    close_if_unused(domain);
  }
}

}  // namespace weft::host
