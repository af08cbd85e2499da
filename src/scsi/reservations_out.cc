// PERSISTENT RESERVE OUT (SPC-4 §5.13.5 to §5.13.11, §6.16).

#include <algorithm>
#include <utility>

#include "scsi/reservations.h"

namespace weft::scsi {
namespace {

constexpr std::size_t kListBytes = 24;

bool is_type(std::uint8_t value) {
  switch (static_cast<ReservationType>(value)) {
    case ReservationType::WriteExclusive:
    case ReservationType::ExclusiveAccess:
    case ReservationType::WriteExclusiveRegistrantsOnly:
    case ReservationType::ExclusiveAccessRegistrantsOnly:
    case ReservationType::WriteExclusiveAllRegistrants:
    case ReservationType::ExclusiveAccessAllRegistrants:
      return true;
    case ReservationType::None:
      return false;
  }
  return false;
}

// RESERVE, RELEASE and the PREEMPTs have a scope, which is the whole unit, and a type.
Outcome<ReservationType> parse_type(std::uint8_t scope_and_type) {
  if ((scope_and_type & 0xF0) != 0) {
    return invalid_field_in_cdb(2, 7);
  }
  if (!is_type(scope_and_type & 0x0F)) {
    return invalid_field_in_cdb(2, 3);
  }
  return static_cast<ReservationType>(scope_and_type & 0x0F);
}

}  // namespace

struct Reservations::Parameters {
  std::uint64_t key{};
  std::uint64_t service_action_key{};
  bool all_ports{};
  bool persists{};
};

Outcome<ReservationChange> Reservations::out(const NexusName& nexus, const ReserveRequest& request,
                                             const Facts& facts) {
  if (request.action == ReserveAction::RegisterAndMove) {
    return register_and_move(nexus, request.parameters, facts);
  }
  const ByteSpan list = request.parameters;
  if (list.size() < kListBytes) {
    return illegal_request(SenseCode::ParameterListLengthError);
  }
  const std::uint8_t flags = load8(list, 20);
  if ((flags & 0x08) != 0) {
    return invalid_field_in_parameters(20);  // SPEC_I_PT: SIP_C is 0
  }
  if (list.size() != kListBytes) {
    return illegal_request(SenseCode::ParameterListLengthError);
  }
  const Parameters parameters{.key = load64(list, 0),
                              .service_action_key = load64(list, 8),
                              .all_ports = (flags & 0x04) != 0,
                              .persists = (flags & 0x01) != 0};
  const bool registers = request.action == ReserveAction::Register ||
                         request.action == ReserveAction::RegisterAndIgnore;
  if (registers) {
    return register_nexus(nexus, parameters, request.action == ReserveAction::RegisterAndIgnore,
                          facts);
  }
  const Registration* const own = find(nexus);
  if (own == nullptr || own->key != parameters.key) {
    return end_with(Status::ReservationConflict);
  }
  if (request.action == ReserveAction::Clear) {
    return clear(nexus);
  }
  const Outcome<ReservationType> type = parse_type(request.scope_and_type);
  if (!type) {
    return std::unexpected(type.error());
  }
  if (request.action == ReserveAction::Reserve) {
    return reserve(nexus, *type);
  }
  if (request.action == ReserveAction::Release) {
    return release_by_command(nexus, *type);
  }
  return preempt(nexus, parameters, *type, request.action == ReserveAction::PreemptAndAbort);
}

// SPC-4 §5.13.7, Tables 50 and 51.
Outcome<ReservationChange> Reservations::register_nexus(const NexusName& nexus,
                                                        const Parameters& parameters,
                                                        bool ignores_key, const Facts& facts) {
  if (parameters.persists && !facts.can_persist) {
    return invalid_field_in_parameters(20);
  }
  const Registration* const own = find(nexus);
  if (!ignores_key && parameters.key != (own == nullptr ? 0 : own->key)) {
    return end_with(Status::ReservationConflict);
  }
  ReservationChange change;
  if (own == nullptr && parameters.service_action_key == 0) {
    return change;
  }
  if (parameters.service_action_key == 0) {
    unregister(nexus, change);
  } else if (const auto added = add_registrations(nexus, parameters, facts); !added) {
    return std::unexpected(added.error());
  }
  ++generation_;
  change.must_be_saved = parameters.persists || persists_;
  persists_ = parameters.persists;
  return change;
}

Outcome<void> Reservations::add_registrations(const NexusName& nexus, const Parameters& parameters,
                                              const Facts& facts) {
  std::vector<PortId> ports{nexus.port};
  if (parameters.all_ports && find(nexus) == nullptr) {
    ports = facts.ports;
  }
  if (registrations_.size() + ports.size() > kMaxRegistrations) {
    return illegal_request(SenseCode::InsufficientRegistrationResources);
  }
  for (const PortId port : ports) {
    const NexusName name{.initiator = nexus.initiator, .port = port};
    if (Registration* const known = find(name)) {
      known->key = parameters.service_action_key;
    } else {
      registrations_.push_back(
          {.nexus = name, .key = parameters.service_action_key, .all_ports = parameters.all_ports});
    }
  }
  return {};
}

Outcome<ReservationChange> Reservations::reserve(const NexusName& nexus, ReservationType type) {
  if (legacy_holder_.has_value()) {
    return end_with(Status::ReservationConflict);
  }
  if (is_reserved()) {  // SPC-4 §5.13.9
    return is_holder(nexus) && type_ == type
               ? Outcome<ReservationChange>{ReservationChange{}}
               : Outcome<ReservationChange>{end_with(Status::ReservationConflict)};
  }
  set_reservation(type, nexus);
  return ReservationChange{.must_be_saved = persists_};
}

Outcome<ReservationChange> Reservations::release_by_command(const NexusName& nexus,
                                                            ReservationType type) {
  ReservationChange change;
  if (!is_holder(nexus)) {
    return change;  // SPC-4 §5.13.11.2.2: GOOD, and nothing changes
  }
  if (type_ != type) {
    return illegal_request(SenseCode::InvalidReleaseOfPersistentReservation);
  }
  release(nexus, change);
  change.must_be_saved = persists_;
  return change;
}

Outcome<ReservationChange> Reservations::clear(const NexusName& nexus) {  // SPC-4 §5.13.11.2.6
  ReservationChange change{.must_be_saved = persists_};
  for (const Registration& other : registrations_) {
    if (other.nexus != nexus) {
      change.attentions.push_back({other.nexus, SenseCode::ReservationsPreempted});
    }
  }
  registrations_.clear();
  type_ = ReservationType::None;
  holder_ = {};
  ++generation_;
  return change;
}

// Removes registrations with the key, or all; the one of `by` only where it is not spared.
void Reservations::remove_key(std::optional<std::uint64_t> key, const NexusName& by,
                              bool spares_own, ReservationChange& change) {
  std::erase_if(registrations_, [&](const Registration& other) {
    if ((key.has_value() && other.key != *key) || (spares_own && other.nexus == by)) {
      return false;
    }
    if (other.nexus != by) {
      change.attentions.push_back({other.nexus, SenseCode::RegistrationsPreempted});
      change.aborted.push_back(other.nexus);
    }
    return true;
  });
}

// SPC-4 §5.13.11.2.4 and Figure 9: a key of zero means all registrants, the key of the holder its
// reservation, any other key only registrations.
Outcome<ReservationChange> Reservations::preempt(const NexusName& nexus,
                                                 const Parameters& parameters, ReservationType type,
                                                 bool aborts) {
  const std::uint64_t key = parameters.service_action_key;
  const bool of_all = is_reserved() && is_all_registrants(type_);
  if (key == 0 && !of_all) {
    return invalid_field_in_parameters(8);
  }
  const Registration* const holder = is_reserved() && !of_all ? find(holder_) : nullptr;
  const bool takes_reservation = (of_all && key == 0) || (holder != nullptr && holder->key == key);
  if (!takes_reservation &&
      std::ranges::find(registrations_, key, &Registration::key) == registrations_.end()) {
    return end_with(Status::ReservationConflict);
  }
  ReservationChange change{.must_be_saved = persists_};
  remove_key(of_all && key == 0 ? std::nullopt : std::optional{key}, nexus, takes_reservation,
             change);
  if (takes_reservation) {
    const ReservationType before = type_;
    set_reservation(type, nexus);
    for (const Registration& other : registrations_) {
      if (before != type && other.nexus != nexus) {
        change.attentions.push_back({other.nexus, SenseCode::ReservationsReleased});
      }
    }
  } else if (of_all && registrations_.empty()) {
    release(nexus, change);
  }
  ++generation_;
  if (!aborts) {
    change.aborted.clear();
  }
  return change;
}

// SPC-4 §5.13.8 and §6.16.4.
Outcome<ReservationChange> Reservations::register_and_move(const NexusName& nexus, ByteSpan list,
                                                           const Facts& facts) {
  if (list.size() < kListBytes || load32(list, 20) < 24 ||
      load32(list, 20) != list.size() - kListBytes) {
    return illegal_request(SenseCode::ParameterListLengthError);
  }
  const std::uint8_t flags = load8(list, 17);
  const bool persists = (flags & 0x01) != 0;
  if (persists && !facts.can_persist) {
    return invalid_field_in_parameters(17);
  }
  const Registration* const own = find(nexus);
  if (own == nullptr || own->key != load64(list, 0) || !is_holder(nexus) ||
      is_all_registrants(type_)) {
    return end_with(Status::ReservationConflict);
  }
  const std::uint64_t key = load64(list, 8);
  if (key == 0) {
    return invalid_field_in_parameters(8);
  }
  const ByteSpan id = list.subspan(kListBytes);
  const NexusName heir{
      .initiator = {id.begin(),  id.end()},
        .port = PortId{load16(list, 18)     }
  };
  if (heir == nexus) {
    return invalid_field_in_parameters(kListBytes);
  }
  if (std::ranges::find(facts.ports, heir.port) == facts.ports.end()) {
    return invalid_field_in_parameters(18);
  }
  if (Registration* const known = find(heir)) {
    known->key = key;
  } else if (registrations_.size() >= kMaxRegistrations) {
    return illegal_request(SenseCode::InsufficientRegistrationResources);
  } else {
    registrations_.push_back({.nexus = heir, .key = key});
  }
  holder_ = heir;
  ReservationChange change{.must_be_saved = persists || persists_};
  if ((flags & 0x02) != 0) {  // UNREG
    unregister(nexus, change);
  }
  persists_ = persists;
  ++generation_;
  return change;
}

}  // namespace weft::scsi
