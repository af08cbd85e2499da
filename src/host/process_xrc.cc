// XRC domains that this process shares with others of its host (hca/xrc_relay.h): asking the daemon
// for them, deputies of other processes' target QPs here, and news of deputies elsewhere.

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "host/clock.h"
#include "host/process_impl.h"

namespace weft::host {
namespace {

constexpr std::chrono::seconds kPatience{10};  // with the daemon; policy

/// Of all other processes' target QPs together; policy.
constexpr std::size_t kMaxDeputies = 4'096;

}  // namespace

void HcaEventsOf::xrc_deputy_wanted(const hca::XrcDeputyRequest& request) {
  process_.post(uabi::XrcRelay{
      .peer = {.node = process_.self.node, .slot = request.slot},
      .domain = request.domain,
      .word = uabi::XrcWord::WantDeputy,
      .serial = request.serial,
      .target = request.of.target,
      .deputy = {},
      .is_for_reads = request.is_for_reads,
      .source = request.of.source,
      .slid = request.of.slid,
      .sl = request.of.sl.value(),
      .port = request.port.value(),
      .pkey_index = request.pkey_index,
      .path_mtu = static_cast<std::uint8_t>(request.path_mtu),
      .min_rnr_timer = request.min_rnr_timer
  });
}

void HcaEventsOf::xrc_deputies_dismissed(std::uint32_t domain, Qpn target) {
  uabi::XrcRelay message;
  message.domain = domain;
  message.word = uabi::XrcWord::Dismissed;
  message.target = target;
  process_.post(message);
}

// --- domains

Result<hca::XrcDomain*> Process::open_xrc_domain(std::uint32_t hca, int fd, bool creates,
                                                 bool is_exclusive) {
  const auto name = impl_->ask_for_xrc_domain(hca, fd, creates, is_exclusive);
  if (!name) {
    return std::unexpected(name.error());
  }
  {
    const std::lock_guard guard{impl_->xrc_lock};
    if (const auto known = impl_->xrc_domains.find(*name); known != impl_->xrc_domains.end()) {
      known->second.is_left = false;  // target QPs that others have open have kept it
      return known->second.engine;
    }
  }
  auto engine = impl_->slots.at(hca)->engine->open_xrc_domain(*name);
  if (!engine) {
    impl_->post(uabi::CloseXrcDomain{.domain = *name});
    return engine;
  }
  const std::lock_guard guard{impl_->xrc_lock};
  impl_->xrc_domains[*name] = {.hca = hca, .engine = *engine, .is_left = false};
  return engine;
}

/// Its name, from the daemon.
Result<std::uint32_t> Process::Impl::ask_for_xrc_domain(std::uint32_t hca, int fd, bool creates,
                                                        bool is_exclusive) {
  UniqueFd file{fcntl(fd, F_DUPFD_CLOEXEC, 0)};
  if (!file) {
    return fail(ErrorCode::InvalidArgument, "descriptor {} of an XRC domain is not open", fd);
  }
  start_threads();  // deputies here need both
  std::unique_lock guard{xrc_lock};
  const std::uint32_t request = ++newest_xrc_request;
  xrc_requests[request] = std::nullopt;
  post(
      uabi::OpenXrcDomain{
          .request = request, .hca = hca, .creates = creates, .is_exclusive = is_exclusive},
      std::move(file));
  xrc_answered.wait_for(guard, kPatience,
                        [&] { return xrc_requests[request].has_value() || daemon_is_gone.load(); });
  const auto answer = xrc_requests.extract(request).mapped();
  if (!answer) {
    return daemon_is_gone.load() ? std::unexpected(gone())
                                 : fail(ErrorCode::TimedOut, "the daemon does not answer");
  }
  if (answer->domain == 0) {
    return fail(answer->may_come ? ErrorCode::TryAgain : ErrorCode::InvalidArgument, "{}",
                answer->reason);
  }
  return answer->domain;
}

void Process::Impl::handle_xrc_domain(const uabi::XrcDomainOpened& answer) {
  const std::lock_guard guard{xrc_lock};
  if (const auto request = xrc_requests.find(answer.request); request != xrc_requests.end()) {
    request->second = answer;
    xrc_answered.notify_all();
  } else if (answer.domain != 0) {
    post(uabi::CloseXrcDomain{.domain = answer.domain});  // who asked waits no longer
  }
}

Result<void> Process::close_xrc_domain(std::uint32_t hca, hca::XrcDomain& domain) {
  hca::Hca& engine = *impl_->slots.at(hca)->engine;
  if (domain.name == 0) {
    return engine.close_xrc_domain(domain);
  }
  const std::lock_guard guard{impl_->xrc_lock};
  const auto others = std::ranges::count(impl_->deputies, domain.name, &Impl::Deputy::domain) +
                      static_cast<std::ptrdiff_t>(impl_->orphans_of(domain.name));
  if (domain.uses.load(std::memory_order_acquire) != static_cast<std::uint32_t>(others)) {
    return fail(ErrorCode::Busy, "XRC SRQs or target QPs of the domain still exist");
  }
  impl_->xrc_domains.at(domain.name).is_left = true;
  impl_->close_if_left(domain.name);
  return {};
}

/// Once no other process has a target QP of it open. With xrc_lock.
void Process::Impl::close_if_left(std::uint32_t name) {
  const auto found = xrc_domains.find(name);
  if (found == xrc_domains.end() || !found->second.is_left || orphans_of(name) != 0) {
    return;
  }
  const XrcDomainHere domain = found->second;
  xrc_domains.erase(found);  // from now on nobody gets a deputy
  end_deputies([name](const Deputy& deputy) { return deputy.domain == name; });
  post(uabi::CloseXrcDomain{.domain = name});
  static_cast<void>(slots.at(domain.hca)->engine->close_xrc_domain(*domain.engine));
}

// --- deputies here

void Process::Impl::handle_xrc_word(const uabi::XrcRelay& message) {
  const auto is_of_peer = [&](const Deputy& deputy) {
    return deputy.domain == message.domain && deputy.home == message.peer;
  };
  std::unique_lock guard{xrc_lock};
  switch (message.word) {
    case uabi::XrcWord::WantDeputy:
      post(make_deputy(message));
      return;
    case uabi::XrcWord::Dismissed:
      end_deputies([&](const Deputy& deputy) {
        return is_of_peer(deputy) && deputy.target == message.target;
      });
      return;
    case uabi::XrcWord::Gone:
      end_deputies(is_of_peer);
      break;
    case uabi::XrcWord::Deputy:
    case uabi::XrcWord::NoDeputy:
      break;
  }
  guard.unlock();
  if (message.word == uabi::XrcWord::Gone) {
    forget_opener(message.peer, message.domain, std::nullopt);
    lose_targets(message.peer, message.domain);
  }
  tell_targets(message);
}

/// For a process that has the domain open, as the daemon says. A target has one deputy here for
/// READs and one for all else, which are its newest connection's. With xrc_lock; returns the
/// answer.
uabi::XrcRelay Process::Impl::make_deputy(const uabi::XrcRelay& message) {
  end_deputies([&](const Deputy& deputy) {
    return deputy.domain == message.domain && deputy.home == message.peer &&
           deputy.target == message.target && deputy.is_for_reads == message.is_for_reads;
  });
  uabi::XrcRelay answer = message;
  answer.word = uabi::XrcWord::NoDeputy;
  const auto found = xrc_domains.find(message.domain);
  if (found == xrc_domains.end() || deputies.size() >= kMaxDeputies) {
    return answer;
  }
  const auto [hca, domain, is_left] = found->second;
  const auto qp = slots.at(hca)->engine->create_deputy(
      *domain, {
                   .slot = self.slot,
                   .serial = message.serial,
                   .domain = message.domain,
                   .is_for_reads = message.is_for_reads,
                   .of = {.target = message.target,
                          .source = message.source,
                          .slid = message.slid,
                          .sl = ServiceLevel{message.sl}},
                   .port = PortNumber{message.port},
                   .pkey_index = message.pkey_index,
                   .path_mtu = static_cast<wire::Mtu>(message.path_mtu),
                   .min_rnr_timer = message.min_rnr_timer
  });
  if (!qp) {
    return answer;
  }
  hca::QpInit init;
  init.type = hca::QpType::XrcTarget;
  bind(carry_for(**qp, hca, init));
  deputies.push_back({.domain = message.domain,
                      .hca = hca,
                      .home = message.peer,
                      .target = message.target,
                      .is_for_reads = message.is_for_reads,
                      .qp = *qp});
  answer.word = uabi::XrcWord::Deputy;
  answer.deputy = (*qp)->number();
  return answer;
}

/// The receive that a message was filling is flushed. With xrc_lock.
template <class Which>
void Process::Impl::end_deputies(Which which) {
  hca::QpAttributes error;
  error.state = hca::QpState::Err;
  std::erase_if(deputies, [&](const Deputy& deputy) {
    if (!which(deputy)) {
      return false;
    }
    static_cast<void>(deputy.qp->modify(error, hca::QpAttribute::State));
    static_cast<void>(destroy_qp(deputy.hca, *deputy.qp));
    return true;
  });
}

// --- target QPs here

/// What came of a question for a deputy, or that a process has gone. While it is quiesced no QP is
/// being destroyed.
void Process::Impl::tell_targets(const uabi::XrcRelay& message) {
  if (message.peer.node != self.node) {
    return;
  }
  const QuiesceGuard quiesced{*this};
  const std::lock_guard guard{qps_lock};
  for (const auto& [qp, carrier] : carriers) {
    const hca::XrcDomain* const domain = qp->xrc_domain();
    if (domain == nullptr || domain->name != message.domain) {
      continue;
    }
    if (message.word == uabi::XrcWord::Gone) {
      qp->handle_owner_gone(message.peer.slot);
    } else if (qp->number() == message.target) {
      qp->handle_deputy(
          message.peer.slot, message.serial,
          message.word == uabi::XrcWord::Deputy ? std::optional{message.deputy} : std::nullopt);
    } else {
      continue;
    }
    settle(*carrier);
  }
}

}  // namespace weft::host
