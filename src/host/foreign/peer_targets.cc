#include "host/foreign/peer_targets.h"

#include <utility>
#include <vector>

#include "base/process_slot.h"

namespace weft::host {
namespace {

[[nodiscard]] uabi::XrcTargetRequest question_of(std::uint32_t domain, uabi::TargetVerb verb,
                                                 Qpn target) {
  uabi::XrcTargetRequest question;
  question.domain = domain;
  question.verb = verb;
  question.target = target;
  return question;
}

}  // namespace

uabi::ProcessAddress ForeignTargets::home_of(Qpn target) const {
  return {.node = daemon_.self().node, .slot = slot_of(target)};
}

Result<void> ForeignTargets::open(std::uint32_t domain, Qpn target) {
  {
    const std::lock_guard guard{lock_};
    ++handles_[{domain, target.value()}];  // before it is open, so that closing another handle does
                                           // not end it
  }
  const auto answer = ask(question_of(domain, uabi::TargetVerb::Open, target));
  if (!answer) {
    close(domain, target);
    return std::unexpected(answer.error().code == ErrorCode::NoSuchDevice
                               ? Error{ErrorCode::InvalidArgument, answer.error().reason}
                               : answer.error());
  }
  return {};
}

void ForeignTargets::close(std::uint32_t domain, Qpn target) {
  {
    const std::lock_guard guard{lock_};
    const auto found = handles_.find({domain, target.value()});
    if (found == handles_.end() || --found->second != 0) {
      return;
    }
    handles_.erase(found);
  }
  uabi::XrcTargetRequest question = question_of(domain, uabi::TargetVerb::Close, target);
  question.peer = home_of(target);
  daemon_.post(question);
}

Result<void> ForeignTargets::modify(std::uint32_t domain, Qpn target,
                                    const hca::QpAttributes& attributes,
                                    hca::QpAttributeMask mask) {
  uabi::XrcTargetRequest question = question_of(domain, uabi::TargetVerb::Modify, target);
  question.modification = {.mask = mask, .attributes = attributes};
  const auto answer = ask(question);
  return answer ? Result<void>{} : Result<void>{std::unexpected(answer.error())};
}

Result<hca::QpAttributes> ForeignTargets::query(std::uint32_t domain, Qpn target) {
  const auto answer = ask(question_of(domain, uabi::TargetVerb::Query, target));
  if (!answer && answer.error().code == ErrorCode::NoSuchDevice) {
    hca::QpAttributes lost;
    lost.state = lost.current_state = hca::QpState::Err;
    return lost;
  }
  if (!answer) {
    return std::unexpected(answer.error());
  }
  return answer->attributes;
}

Result<uabi::XrcTargetAnswer> ForeignTargets::ask(uabi::XrcTargetRequest question) {
  daemon_.start_daemon_events();
  question.peer = home_of(question.target);
  auto answer = questions_.ask(
      {.peer = question.peer, .domain = question.domain},
      [&](std::uint32_t serial) {
        question.serial = serial;
        daemon_.post(question);
      },
      [this] { return daemon_.is_gone(); });
  if (!answer) {
    return daemon_.is_gone()
               ? std::unexpected(daemon_.gone())
               : fail(ErrorCode::TimedOut, "the process that made target QP {:#x} does not answer",
                      question.target.value());
  }
  if (answer->error != 0) {
    return std::unexpected(error_in(*answer));
  }
  return std::move(*answer);
}

void ForeignTargets::handle(const uabi::XrcTargetAnswer& answer) {
  questions_.answer(answer.serial, answer,
                    [&](const About& about) { return about.peer == answer.peer; });
}

void ForeignTargets::handle(const uabi::XrcTargetEvent& message) {
  if (message.peer != home_of(message.target)) {
    return;
  }
  {
    const std::lock_guard guard{lock_};
    if (!handles_.contains({message.domain, message.target.value()})) {
      return;
    }
  }
  events_.target_event(message.domain, message.target, message.event);
}

void ForeignTargets::lose(uabi::ProcessAddress peer, std::uint32_t domain) {
  uabi::XrcTargetAnswer none;
  put_error(none, {ErrorCode::NoSuchDevice, "the process that made the target QP is gone"});
  questions_.answer_all(
      none, [&](const About& about) { return about.peer == peer && about.domain == domain; });
  std::vector<Qpn> lost;
  {
    const std::lock_guard guard{lock_};
    for (const auto& [name, handles] : handles_) {
      if (name.first == domain && slot_of(Qpn{name.second}) == peer.slot) {
        lost.push_back(Qpn{name.second});
      }
    }
  }
  for (const Qpn target : lost) {
    events_.target_event(domain, target, hca::AsyncEventType::QpFatal);
  }
}

}  // namespace weft::host
