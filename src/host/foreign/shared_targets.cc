#include "host/foreign/shared_targets.h"

#include <algorithm>

#include "host/foreign/pending_requests.h"

namespace weft::host {

void SharedTargets::note(std::uint32_t hca, hca::Qp& qp) {
  const hca::XrcDomain* const domain = qp.xrc_domain();
  if (domain != nullptr && domain->name != 0) {
    const std::lock_guard guard{lock_};
    targets_.push_back(
        {.qp = &qp, .hca = hca, .domain = domain->name, .others = {}, .is_orphan = false});
  }
}

bool SharedTargets::release(const hca::Qp& qp) {
  const std::lock_guard guard{lock_};
  const auto found = std::ranges::find(targets_, &qp, &Target::qp);
  if (found == targets_.end()) {
    return true;
  }
  if (!found->others.empty()) {
    found->is_orphan = true;
    return false;
  }
  targets_.erase(found);  // from now on it cannot be opened
  return true;
}

Result<hca::Qp*> SharedTargets::open_again(std::uint32_t domain, Qpn target) {
  const std::lock_guard guard{lock_};
  const auto found = std::ranges::find_if(targets_, [&](const Target& own) {
    return own.domain == domain && own.qp->number() == target && own.is_orphan;
  });
  if (found == targets_.end()) {
    return fail(ErrorCode::InvalidArgument, "no target QP of the XRC domain has the number {:#x}",
                target.value());
  }
  found->is_orphan = false;
  return found->qp;
}

/// The target with that number, on behalf of a process that opens it or has it open; it stays until
/// that process closes it.
Result<hca::Qp*> SharedTargets::target_for(const uabi::XrcTargetRequest& question) {
  const std::lock_guard guard{lock_};
  const auto found = std::ranges::find_if(targets_, [&](const Target& target) {
    return target.domain == question.domain && target.qp->number() == question.target;
  });
  if (found == targets_.end()) {
    return fail(ErrorCode::InvalidArgument,
                "no target QP of the XRC domain has the number {:#x}; it may have been destroyed",
                question.target.value());
  }
  if (question.verb != uabi::TargetVerb::Open) {
    return found->others.contains(question.peer)
               ? Result<hca::Qp*>{found->qp}
               : fail(ErrorCode::PermissionDenied, "the sender does not have the target QP open");
  }
  if (found->others.size() >= most_openers_) {
    return fail(ErrorCode::OutOfMemory, "{} other processes have the target QP open already",
                most_openers_);
  }
  found->others.insert(question.peer);
  return found->qp;
}

uabi::XrcTargetAnswer SharedTargets::answer(const uabi::XrcTargetRequest& question) {
  uabi::XrcTargetAnswer answer;
  answer.peer = question.peer;
  answer.domain = question.domain;
  answer.serial = question.serial;
  const auto qp = target_for(question);
  if (!qp) {
    put_error(answer, qp.error());
    return answer;
  }
  if (question.verb == uabi::TargetVerb::Modify) {
    const auto modified =
        objects_.modify_qp(**qp, question.modification.attributes, question.modification.mask);
    if (!modified) {
      put_error(answer, modified.error());
    }
  }
  answer.attributes = (*qp)->query();
  return answer;
}

std::vector<SharedTargets::Left> SharedTargets::remove_opener(uabi::ProcessAddress peer,
                                                              std::uint32_t domain,
                                                              std::optional<Qpn> target) {
  std::vector<Left> left;
  const std::lock_guard guard{lock_};
  std::erase_if(targets_, [&](Target& each) {
    if (each.domain != domain || (target && each.qp->number() != *target)) {
      return false;
    }
    const bool goes = each.others.erase(peer) != 0 && each.others.empty() && each.is_orphan;
    if (goes) {
      left.push_back({.hca = each.hca, .qp = each.qp});
    }
    return goes;
  });
  return left;
}

void SharedTargets::notify_openers(const hca::AsyncEvent& event) {
  std::vector<uabi::XrcTargetEvent> messages;
  {
    const std::lock_guard guard{lock_};
    const auto found = std::ranges::find(targets_, event.qp, &Target::qp);
    if (found == targets_.end()) {
      return;
    }
    for (const uabi::ProcessAddress& other : found->others) {
      messages.push_back({.peer = other,
                          .domain = found->domain,
                          .target = event.qp->number(),
                          .event = event.type});
    }
  }
  for (const uabi::XrcTargetEvent& message : messages) {
    daemon_.post(message);
  }
}

std::size_t SharedTargets::orphans_of(std::uint32_t domain) const {
  const std::lock_guard guard{lock_};
  return static_cast<std::size_t>(std::ranges::count_if(targets_, [domain](const Target& target) {
    return target.domain == domain && target.is_orphan;
  }));
}

}  // namespace weft::host
