// Target QPs of shared XRC domains that several processes have open (ibv_open_qp(3)). A target is
// where it was made, for as long as anybody has it open and that process lives: its program may
// destroy its own handle and close the domain before others do. Those ask the process where it is.

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "base/process_slot.h"
#include "host/process_impl.h"

namespace weft::host {
namespace {

constexpr std::chrono::seconds kPatience{10};  // with the other process; policy

/// Other processes that have one target open; policy.
constexpr std::size_t kMaxOpeners = 1'024;

[[nodiscard]] uabi::RdmaCmAddressVector to_words(const hca::AhAttributes& in) {
  return {.dlid = in.dlid,
          .sl = in.sl,
          .source_path_bits = in.source_path_bits,
          .static_rate = in.static_rate,
          .port = in.port.value(),
          .is_global = in.is_global,
          .dgid = in.grh.dgid,
          .flow_label = in.grh.flow_label,
          .sgid_index = in.grh.sgid_index,
          .hop_limit = in.grh.hop_limit,
          .traffic_class = in.grh.traffic_class};
}

[[nodiscard]] hca::AhAttributes from_words(const uabi::RdmaCmAddressVector& in) {
  return {
      .dlid = in.dlid,
      .sl = in.sl,
      .source_path_bits = in.source_path_bits,
      .static_rate = in.static_rate,
      .port = PortNumber{in.port},
      .is_global = in.is_global,
      .grh = {.dgid = in.dgid,
                         .flow_label = in.flow_label,
                         .sgid_index = in.sgid_index,
                         .hop_limit = in.hop_limit,
                         .traffic_class = in.traffic_class}
  };
}

[[nodiscard]] uabi::RdmaCmQpAttributes to_words(const hca::QpAttributes& in, std::uint32_t mask) {
  return {.mask = mask,
          .state = static_cast<std::uint8_t>(in.state),
          .path_mtu = static_cast<std::uint8_t>(in.path_mtu),
          .path_mig_state = static_cast<std::uint8_t>(in.migration),
          .qkey = in.qkey,
          .rq_psn = in.rq_psn.value(),
          .sq_psn = in.sq_psn.value(),
          .destination = in.dest_qpn,
          .access_flags = in.access.bits(),
          .path = to_words(in.address),
          .alternate_path = to_words(in.alternate_address),
          .pkey_index = in.pkey_index,
          .alternate_pkey_index = in.alternate_pkey_index,
          .port = in.port.value(),
          .alternate_port = in.alternate_port.value(),
          .max_rd_atomic = in.max_rd_atomic,
          .max_dest_rd_atomic = in.max_dest_rd_atomic,
          .min_rnr_timer = in.min_rnr_timer,
          .timeout = in.timeout.value(),
          .alternate_timeout = in.alternate_timeout.value(),
          .retry_count = in.retry_count,
          .rnr_retry = in.rnr_retry};
}

/// Foreign: what no sender of ours says is refused before it becomes a type that cannot say it.
[[nodiscard]] Result<hca::QpAttributes> from_words(const uabi::RdmaCmQpAttributes& in,
                                                   std::uint8_t current_state) {
  constexpr auto kLastState = static_cast<std::uint8_t>(hca::QpState::Err);
  constexpr auto kLastMigration = static_cast<std::uint8_t>(hca::MigrationState::Armed);
  constexpr std::uint8_t kLastTimeout = 31;
  constexpr std::uint32_t kLastPsn = 0xFF'FFFF;
  if (in.state > kLastState || current_state > kLastState || in.path_mig_state > kLastMigration ||
      in.path_mtu < 1 || in.path_mtu > 5 || in.timeout > kLastTimeout ||
      in.alternate_timeout > kLastTimeout || in.rq_psn > kLastPsn || in.sq_psn > kLastPsn) {
    return fail(ErrorCode::InvalidArgument, "attributes of a QP with values that do not exist");
  }
  hca::QpAttributes out;
  out.state = static_cast<hca::QpState>(in.state);
  out.current_state = static_cast<hca::QpState>(current_state);
  out.path_mtu = static_cast<wire::Mtu>(in.path_mtu);
  out.migration = static_cast<hca::MigrationState>(in.path_mig_state);
  out.qkey = in.qkey;
  out.rq_psn = Psn{in.rq_psn};
  out.sq_psn = Psn{in.sq_psn};
  out.dest_qpn = in.destination;
  out.access = hca::AccessFlags::from_bits(in.access_flags);
  out.address = from_words(in.path);
  out.alternate_address = from_words(in.alternate_path);
  out.pkey_index = in.pkey_index;
  out.alternate_pkey_index = in.alternate_pkey_index;
  out.port = PortNumber{in.port};
  out.alternate_port = PortNumber{in.alternate_port};
  out.max_rd_atomic = in.max_rd_atomic;
  out.max_dest_rd_atomic = in.max_dest_rd_atomic;
  out.min_rnr_timer = in.min_rnr_timer;
  out.timeout = TimeoutExponent{in.timeout};
  out.alternate_timeout = TimeoutExponent{in.alternate_timeout};
  out.retry_count = in.retry_count;
  out.rnr_retry = in.rnr_retry;
  return out;
}

[[nodiscard]] uabi::AskXrcTarget question_of(std::uint32_t domain, uabi::TargetVerb verb,
                                             Qpn target) {
  uabi::AskXrcTarget question;
  question.domain = domain;
  question.verb = verb;
  question.target = target;
  return question;
}

void put_error(uabi::XrcTargetAnswer& answer, const Error& error) {
  answer.error = static_cast<std::uint8_t>(static_cast<unsigned>(error.code) + 1);
  answer.reason = error.reason;
}

}  // namespace

// --- targets here

void Process::Impl::note_target(std::uint32_t hca, hca::Qp& qp) {
  const hca::XrcDomain* const domain = qp.xrc_domain();
  if (domain != nullptr && domain->name != 0) {
    const std::lock_guard guard{targets_lock};
    shared_targets.push_back(
        {.qp = &qp, .hca = hca, .domain = domain->name, .others = {}, .is_orphan = false});
  }
}

Result<void> Process::release_target(std::uint32_t hca, hca::Qp& target) {
  std::unique_lock guard{impl_->targets_lock};
  const auto found = std::ranges::find(impl_->shared_targets, &target, &Impl::SharedTarget::qp);
  if (found != impl_->shared_targets.end()) {
    if (!found->others.empty()) {
      found->is_orphan = true;
      return {};
    }
    impl_->shared_targets.erase(found);  // from now on nobody opens it
  }
  guard.unlock();
  return impl_->destroy_qp(hca, target);
}

/// With the locks of the QP held: whoever has it open hears of what happens to it.
void Process::Impl::tell_openers(const hca::AsyncEvent& event) {
  std::vector<uabi::XrcTargetEvent> messages;
  {
    const std::lock_guard guard{targets_lock};
    const auto found = std::ranges::find(shared_targets, event.qp, &SharedTarget::qp);
    if (found == shared_targets.end()) {
      return;
    }
    for (const uabi::ProcessAddress& other : found->others) {
      messages.push_back({.peer = other,
                          .domain = found->domain,
                          .target = event.qp->number(),
                          .event = static_cast<std::uint8_t>(event.type)});
    }
  }
  for (const uabi::XrcTargetEvent& message : messages) {
    post(message);
  }
}

/// The target with that number; for one who opens it, or has it open, by now. It stays until that
/// one closes it.
Result<hca::Qp*> Process::Impl::target_for(const uabi::AskXrcTarget& question) {
  const std::lock_guard guard{targets_lock};
  const auto found = std::ranges::find_if(shared_targets, [&](const SharedTarget& target) {
    return target.domain == question.domain && target.qp->number() == question.target;
  });
  if (found == shared_targets.end()) {
    return fail(ErrorCode::InvalidArgument,
                "no target QP of the XRC domain has the number {:#x}; it may have been destroyed",
                question.target.value());
  }
  if (question.verb != uabi::TargetVerb::Open) {
    return found->others.contains(question.peer)
               ? Result<hca::Qp*>{found->qp}
               : fail(ErrorCode::PermissionDenied, "the sender does not have the target QP open");
  }
  if (found->others.size() >= kMaxOpeners) {
    return fail(ErrorCode::OutOfMemory, "{} other processes have the target QP open already",
                kMaxOpeners);
  }
  found->others.insert(question.peer);
  return found->qp;
}

/// On the control thread, as is all that may end a target which another process has open.
void Process::Impl::handle_target_question(const uabi::AskXrcTarget& question) {
  if (question.verb == uabi::TargetVerb::Close) {
    forget_opener(question.peer, question.domain, question.target);
    return;
  }
  uabi::XrcTargetAnswer answer;
  answer.peer = question.peer;
  answer.domain = question.domain;
  answer.serial = question.serial;
  const auto qp = target_for(question);
  if (!qp) {
    put_error(answer, qp.error());
  } else if (question.verb == uabi::TargetVerb::Modify) {
    const auto to = from_words(question.attributes, question.current_state);
    const auto modified =
        to ? modify_qp(**qp, *to, hca::QpAttributeMask::from_bits(question.attributes.mask))
           : Result<void>{std::unexpected(to.error())};
    if (!modified) {
      put_error(answer, modified.error());
    }
  }
  if (qp) {
    answer.attributes = to_words((*qp)->query(), 0);
  }
  post(std::move(answer));
}

/// One target, or all of the domain. Those that no program has open any more go.
void Process::Impl::forget_opener(uabi::ProcessAddress peer, std::uint32_t domain,
                                  std::optional<Qpn> target) {
  std::vector<SharedTarget> left;
  const std::lock_guard domains{xrc_lock};  // who closes the domain finds them here or destroyed
  {
    const std::lock_guard guard{targets_lock};
    std::erase_if(shared_targets, [&](SharedTarget& each) {
      if (each.domain != domain || (target && each.qp->number() != *target)) {
        return false;
      }
      const bool goes = each.others.erase(peer) != 0 && each.others.empty() && each.is_orphan;
      if (goes) {
        left.push_back(each);
      }
      return goes;
    });
  }
  for (const SharedTarget& each : left) {
    static_cast<void>(destroy_qp(each.hca, *each.qp));
  }
  if (!left.empty()) {
    close_if_left(domain);
  }
}

/// Targets of the domain that only other processes have open.
std::size_t Process::Impl::orphans_of(std::uint32_t domain) {
  const std::lock_guard guard{targets_lock};
  return static_cast<std::size_t>(
      std::ranges::count_if(shared_targets, [domain](const SharedTarget& target) {
        return target.domain == domain && target.is_orphan;
      }));
}

// --- targets elsewhere

Result<hca::Qp*> Process::open_target(const hca::XrcDomain& domain, Qpn target) {
  const std::uint32_t home = slot_of(target);
  if (domain.name == 0 || home == impl_->self.slot) {
    const std::lock_guard guard{impl_->targets_lock};
    const auto found =
        std::ranges::find_if(impl_->shared_targets, [&](const Impl::SharedTarget& own) {
          return own.domain == domain.name && own.qp->number() == target && own.is_orphan;
        });
    if (found != impl_->shared_targets.end()) {
      found->is_orphan = false;
      return found->qp;
    }
    return fail(ErrorCode::InvalidArgument, "no target QP of the XRC domain has the number {:#x}",
                target.value());
  }
  const auto name = std::pair{domain.name, target.value()};
  {
    const std::lock_guard guard{impl_->targets_lock};
    ++impl_->foreign_targets[name];  // before it is open, so that nobody's closing ends it
  }
  const auto answer =
      impl_->ask_for_target(question_of(domain.name, uabi::TargetVerb::Open, target));
  if (!answer) {
    close_target(domain.name, target);
    return std::unexpected(answer.error().code == ErrorCode::NoSuchDevice
                               ? Error{ErrorCode::InvalidArgument, answer.error().reason}
                               : answer.error());
  }
  return nullptr;
}

void Process::close_target(std::uint32_t domain, Qpn target) {
  {
    const std::lock_guard guard{impl_->targets_lock};
    const auto found = impl_->foreign_targets.find({domain, target.value()});
    if (found == impl_->foreign_targets.end() || --found->second != 0) {
      return;
    }
    impl_->foreign_targets.erase(found);
  }
  uabi::AskXrcTarget question = question_of(domain, uabi::TargetVerb::Close, target);
  question.peer = {.node = impl_->self.node, .slot = slot_of(target)};
  impl_->post(question);
}

Result<void> Process::modify_target(std::uint32_t domain, Qpn target,
                                    const hca::QpAttributes& attributes,
                                    hca::QpAttributeMask mask) {
  uabi::AskXrcTarget question = question_of(domain, uabi::TargetVerb::Modify, target);
  question.current_state = static_cast<std::uint8_t>(attributes.current_state);
  question.attributes = to_words(attributes, mask.bits());
  const auto answer = impl_->ask_for_target(question);
  return answer ? Result<void>{} : Result<void>{std::unexpected(answer.error())};
}

/// Of a target whose process is gone, the error state is what there is to say.
Result<hca::QpAttributes> Process::query_target(std::uint32_t domain, Qpn target) {
  const auto answer = impl_->ask_for_target(question_of(domain, uabi::TargetVerb::Query, target));
  if (!answer && answer.error().code == ErrorCode::NoSuchDevice) {
    hca::QpAttributes lost;
    lost.state = lost.current_state = hca::QpState::Err;
    return lost;
  }
  if (!answer) {
    return std::unexpected(answer.error());
  }
  return from_words(answer->attributes, static_cast<std::uint8_t>(answer->attributes.state));
}

Result<uabi::XrcTargetAnswer> Process::Impl::ask_for_target(uabi::AskXrcTarget question) {
  start_hearing();
  question.peer = {.node = self.node, .slot = slot_of(question.target)};
  std::unique_lock guard{xrc_lock};
  question.serial = ++newest_xrc_request;
  target_questions[question.serial] = {
      .peer = question.peer, .domain = question.domain, .answer = std::nullopt};
  post(question);
  xrc_answered.wait_for(guard, kPatience, [&] {
    return target_questions[question.serial].answer.has_value() || daemon_is_gone.load();
  });
  auto answer = std::move(target_questions.extract(question.serial).mapped().answer);
  if (!answer) {
    return daemon_is_gone.load()
               ? std::unexpected(gone())
               : fail(ErrorCode::TimedOut, "the process that made target QP {:#x} does not answer",
                      question.target.value());
  }
  if (answer->error != 0) {
    constexpr unsigned kLast = static_cast<unsigned>(ErrorCode::BadAddress) + 1;
    return fail(answer->error <= kLast ? static_cast<ErrorCode>(answer->error - 1) : ErrorCode::Io,
                "{}", answer->reason);
  }
  return std::move(*answer);
}

void Process::Impl::handle_target_answer(const uabi::XrcTargetAnswer& answer) {
  const std::lock_guard guard{xrc_lock};
  const auto question = target_questions.find(answer.serial);
  if (question != target_questions.end() && question->second.peer == answer.peer) {
    question->second.answer = answer;
    xrc_answered.notify_all();
  }
}

/// Foreign: only the process that has the target may speak for it.
void Process::Impl::handle_target_event(const uabi::XrcTargetEvent& message) {
  constexpr auto kLast = static_cast<std::uint8_t>(hca::AsyncEventType::GidChange);
  if (message.peer.node != self.node || message.peer.slot != slot_of(message.target) ||
      message.event > kLast) {
    return;
  }
  {
    const std::lock_guard guard{targets_lock};
    if (!foreign_targets.contains({message.domain, message.target.value()})) {
      return;
    }
  }
  events.target_event(message.domain, message.target,
                      static_cast<hca::AsyncEventType>(message.event));
}

/// The process is gone, or has left the domain, and its targets with it.
void Process::Impl::lose_targets(uabi::ProcessAddress peer, std::uint32_t domain) {
  {
    const std::lock_guard guard{xrc_lock};
    for (auto& [serial, question] : target_questions) {
      if (question.peer == peer && question.domain == domain && !question.answer) {
        question.answer.emplace();
        put_error(*question.answer,
                  {ErrorCode::NoSuchDevice, "the process that made the target QP is gone"});
      }
    }
    xrc_answered.notify_all();
  }
  std::vector<Qpn> lost;
  {
    const std::lock_guard guard{targets_lock};
    for (const auto& [name, handles] : foreign_targets) {
      if (name.first == domain && slot_of(Qpn{name.second}) == peer.slot) {
        lost.push_back(Qpn{name.second});
      }
    }
  }
  for (const Qpn target : lost) {
    events.target_event(domain, target, hca::AsyncEventType::QpFatal);
  }
}

}  // namespace weft::host
