#include "scsi/reservations.h"

#include <algorithm>
#include <utility>

namespace weft::scsi {

Reservations::Registration* Reservations::find(const NexusName& nexus) {
  const auto found = std::ranges::find(registrations_, nexus, &Registration::nexus);
  return found == registrations_.end() ? nullptr : &*found;
}

const Reservations::Registration* Reservations::find(const NexusName& nexus) const {
  const auto found = std::ranges::find(registrations_, nexus, &Registration::nexus);
  return found == registrations_.end() ? nullptr : &*found;
}

bool Reservations::is_holder(const NexusName& nexus) const {
  return is_reserved() && (is_all_registrants(type_) ? find(nexus) != nullptr : holder_ == nexus);
}

bool Reservations::conflicts(const NexusName& nexus, ReservationClass command) const {
  if (command == ReservationClass::Always || command == ReservationClass::LegacyReserve) {
    return false;
  }
  if (legacy_holder_.has_value()) {
    return *legacy_holder_ != nexus;
  }
  if (command == ReservationClass::Harmless || command == ReservationClass::Management ||
      !is_reserved() || is_holder(nexus) || (is_shared(type_) && find(nexus) != nullptr)) {
    return false;
  }
  return command == ReservationClass::Write || !is_write_exclusive(type_);
}

void Reservations::set_reservation(ReservationType type, const NexusName& holder) {
  type_ = type;
  holder_ = is_all_registrants(type) ? NexusName{} : holder;
}

// SPC-4 §5.13.11.2.2: registrants learn of it where they had access by it.
void Reservations::release(const NexusName& by, ReservationChange& change) {
  if (is_shared(type_)) {
    for (const Registration& other : registrations_) {
      if (other.nexus != by) {
        change.attentions.push_back({other.nexus, SenseCode::ReservationsReleased});
      }
    }
  }
  type_ = ReservationType::None;
  holder_ = {};
}

// SPC-4 §5.13.11.2.3: with its registration a holder gives up the reservation; one of all
// registrants ends with the last of them.
void Reservations::unregister(const NexusName& nexus, ReservationChange& change) {
  const bool held = is_holder(nexus);
  std::erase_if(registrations_, [&](const Registration& r) { return r.nexus == nexus; });
  if (held && (!is_all_registrants(type_) || registrations_.empty())) {
    release(nexus, change);
  }
}

Outcome<void> Reservations::legacy_reserve(const NexusName& nexus) {
  if (!registrations_.empty()) {  // SPC-3 §5.6.3: CRH
    const bool has_access = is_holder(nexus) || (is_shared(type_) && find(nexus) != nullptr);
    return has_access ? Outcome<void>{} : end_with(Status::ReservationConflict);
  }
  if (legacy_holder_.has_value() && *legacy_holder_ != nexus) {
    return end_with(Status::ReservationConflict);
  }
  legacy_holder_ = nexus;
  return {};
}

Outcome<void> Reservations::legacy_release(const NexusName& nexus) {
  if (!registrations_.empty()) {
    return legacy_reserve(nexus);  // the same condition; no effect either
  }
  drop_legacy_of(nexus);  // of another's reservation: GOOD, and no effect (SPC-2 §7.18)
  return {};
}

void Reservations::drop_legacy_of(const NexusName& nexus) {
  if (legacy_holder_ == nexus) {
    legacy_holder_.reset();
  }
}

ParameterData Reservations::read_keys() const {
  ParameterData data;
  data.add(4, generation_).add(4, registrations_.size() * 8);
  for (const Registration& registration : registrations_) {
    data.add(8, registration.key);
  }
  return data;
}

ParameterData Reservations::read_reservation() const {
  ParameterData data;
  data.add(4, generation_).add(4, is_reserved() ? 16 : 0);
  if (is_reserved()) {
    const Registration* const holder = is_all_registrants(type_) ? nullptr : find(holder_);
    data.add(8, holder == nullptr ? 0 : holder->key).add(4, 0).add(1, 0);
    data.add(1, std::to_underlying(type_)).add(2, 0);
  }
  return data;
}

ParameterData Reservations::report_capabilities(const Facts& facts) const {  // SPC-4 §6.15.4
  constexpr std::uint8_t kCrh = 0x10;
  constexpr std::uint8_t kAllTargetPorts = 0x04;
  ParameterData data;
  data.add(2, 8).add(1, kCrh | kAllTargetPorts | (facts.can_persist ? 1u : 0));
  data.add(1, 0x80 | (persists_ ? 1u : 0));  // TMV, PTPL_A
  data.add(2, 0xEA01).add(2, 0);             // all six types
  return data;
}

ParameterData Reservations::read_full_status() const {
  ParameterData data(8);
  for (const Registration& registration : registrations_) {
    const bool holds = is_holder(registration.nexus);
    data.add(8, registration.key).add(4, 0);
    data.add(1, (registration.all_ports ? 2u : 0) | (holds ? 1u : 0));
    data.add(1, holds ? std::to_underlying(type_) : 0).add(4, 0);
    data.add(2, registration.nexus.port.value()).add(4, registration.nexus.initiator.size());
    data.add(registration.nexus.initiator);
  }
  data.set(0, 4, generation_).set(4, 4, data.size() - 8);
  return data;
}

}  // namespace weft::scsi
