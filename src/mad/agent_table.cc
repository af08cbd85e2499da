#include "mad/agent_table.h"

#include <algorithm>
#include <span>
#include <utility>

#include "wire/mad/vendor_mad.h"

namespace weft::mad {
namespace {

[[nodiscard]] unsigned number_of(wire::ManagementClass mgmt_class) {
  return static_cast<unsigned>(mgmt_class);
}

[[nodiscard]] bool speaks(const Registration& registration, const wire::MadHeader& header,
                          const MadBytes& mad) {
  return registration.mgmt_class == header.mgmt_class &&
         (!registration.oui || *registration.oui == wire::unpack<wire::VendorMad>(mad).oui);
}

}  // namespace

bool belongs_to(wire::ManagementClass mgmt_class, InterfaceKind kind) {
  const bool is_smp = mgmt_class == wire::ManagementClass::SubnLidRouted ||
                      mgmt_class == wire::ManagementClass::SubnDirectedRoute;
  return is_smp == (kind == InterfaceKind::Smi);
}

MethodSet methods(std::initializer_list<wire::MadMethod> list) {
  MethodSet set;
  for (const wire::MadMethod method : list) {
    set.set(static_cast<std::uint8_t>(method) & ~unsigned{wire::kMethodResponseBit});
  }
  return set;
}

Result<void> AgentTable::check(const Registration& registration) const {
  if (!belongs_to(registration.mgmt_class, kind_)) {
    return fail(ErrorCode::InvalidArgument,
                "class {:#x} does not belong to QP{}: SMPs go to QP0, all others to QP1",
                number_of(registration.mgmt_class), kind_ == InterfaceKind::Smi ? 0 : 1);
  }
  const bool takes_oui = wire::is_vendor_with_oui(registration.mgmt_class);
  if (registration.oui.has_value() != takes_oui) {
    return fail(ErrorCode::InvalidArgument, "class {:#x} {}", number_of(registration.mgmt_class),
                takes_oui ? "is a vendor's: name its OUI" : "has no OUI: only 0x30 to 0x4f have");
  }
  if (registration.oui && *registration.oui > 0xFF'FFFF) {
    return fail(ErrorCode::InvalidArgument, "OUI {:#x} has more than 24 bits", *registration.oui);
  }
  for (const auto& [id, other] : agents_) {
    const Registration& theirs = other.registration;
    const MethodSet common = theirs.methods & registration.methods;
    if (theirs.mgmt_class == registration.mgmt_class &&
        theirs.class_version == registration.class_version && theirs.oui == registration.oui &&
        common.any() && !theirs.listens && !registration.listens) {
      return fail(ErrorCode::Busy,
                  "{} methods of class {:#x} version {} are agent {}'s ({}), which must be "
                  "unregistered first",
                  common.count(), number_of(registration.mgmt_class), registration.class_version,
                  id.value(), theirs.name);
    }
  }
  if (agents_.size() >= limit_) {
    return fail(ErrorCode::OutOfMemory, "the interface has {} agents, which is its limit", limit_);
  }
  return {};
}

Result<AgentId> AgentTable::add(Registration registration, MadHandler* handler) {
  if (const auto checked = check(registration); !checked) {
    return std::unexpected(checked.error());
  }
  if ((registration.methods.any() || registration.handles_segments) && handler == nullptr) {
    return fail(ErrorCode::InvalidArgument,
                "an agent with methods, or that handles segments, needs a handler");
  }
  do {  // IDs wrap after 2^32 agents: skip those in use
    ++last_id_;
  } while (last_id_ == 0 || agents_.contains(AgentId{last_id_}));
  const AgentId id{last_id_};
  agents_.emplace(id, Agent{.registration = std::move(registration), .handler = handler});
  return id;
}

Result<void> AgentTable::remove(AgentId agent) {
  if (agents_.erase(agent) == 0) {
    return fail(ErrorCode::NotFound, "there is no agent {}", agent.value());
  }
  return {};
}

const Registration* AgentTable::registration(AgentId agent) const {
  const auto found = agents_.find(agent);
  return found == agents_.end() ? nullptr : &found->second.registration;
}

AgentTable::Lookup AgentTable::find(const MadBytes& mad) const {
  const auto header =
      wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
  const auto method =
      static_cast<std::uint8_t>(header.method) & ~unsigned{wire::kMethodResponseBit};
  Match match = Match::NoClass;
  MadHandler* listener = nullptr;
  for (const auto& [id, agent] : agents_) {
    // An agent without methods does not affect which requests are supported.
    if (agent.registration.methods.none() || !speaks(agent.registration, header, mad)) {
      continue;
    }
    if (agent.registration.class_version != header.class_version &&
        !agent.registration.accepts_any_version) {
      match = match == Match::NoClass ? Match::NoVersion : match;
    } else if (!agent.registration.methods.test(method)) {
      match = Match::NoMethod;
    } else if (!agent.registration.listens) {
      return {.match = Match::Found, .handler = agent.handler};
    } else if (listener == nullptr) {
      listener = agent.handler;
    }
  }
  return {.match = listener == nullptr ? match : Match::Found, .handler = listener};
}

std::vector<MadHandler*> AgentTable::find_listeners(const MadBytes& mad) const {
  const auto header =
      wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
  const auto method =
      static_cast<std::uint8_t>(header.method) & ~unsigned{wire::kMethodResponseBit};
  std::vector<MadHandler*> listeners;
  for (const auto& [id, agent] : agents_) {
    const Registration& theirs = agent.registration;
    if (theirs.listens && theirs.methods.test(method) && speaks(theirs, header, mad) &&
        (theirs.accepts_any_version || theirs.class_version == header.class_version)) {
      listeners.push_back(agent.handler);
    }
  }
  std::erase(listeners, find(mad).handler);
  return listeners;
}

MadHandler* AgentTable::find_segment_handler(const MadBytes& mad) const {
  const auto header =
      wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
  if (!is_answer(header)) {
    const Lookup lookup = find(mad);
    const bool takes_it = std::ranges::any_of(agents_, [&](const auto& entry) {
      return entry.second.handler == lookup.handler && entry.second.registration.handles_segments;
    });
    return lookup.match == Match::Found && takes_it ? lookup.handler : nullptr;
  }
  constexpr unsigned kHalf = 32;
  const auto requester =
      agents_.find(AgentId{static_cast<std::uint32_t>(header.transaction_id >> kHalf)});
  return requester != agents_.end() && requester->second.registration.handles_segments
             ? requester->second.handler
             : nullptr;
}

}  // namespace weft::mad
