#pragma once

// Reservations of one logical unit: persistent ones (SPC-4 §5.13) and those of RESERVE and RELEASE
// (SPC-2 §5.5), with the rules between the two (SPC-3 §5.6.3).

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "scsi/big_endian.h"
#include "scsi/command.h"
#include "scsi/sense.h"

namespace weft::scsi {

/// TYPE (SPC-4 Table 47).
enum class ReservationType : std::uint8_t {
  None = 0,
  WriteExclusive = 1,
  ExclusiveAccess = 3,
  WriteExclusiveRegistrantsOnly = 5,
  ExclusiveAccessRegistrantsOnly = 6,
  WriteExclusiveAllRegistrants = 7,
  ExclusiveAccessAllRegistrants = 8,
};

[[nodiscard]] constexpr bool is_all_registrants(ReservationType type) {
  return type == ReservationType::WriteExclusiveAllRegistrants ||
         type == ReservationType::ExclusiveAccessAllRegistrants;
}

/// Registrants may do as the holder does.
[[nodiscard]] constexpr bool is_shared(ReservationType type) {
  return is_all_registrants(type) || type == ReservationType::WriteExclusiveRegistrantsOnly ||
         type == ReservationType::ExclusiveAccessRegistrantsOnly;
}

[[nodiscard]] constexpr bool is_write_exclusive(ReservationType type) {
  return type == ReservationType::WriteExclusive ||
         type == ReservationType::WriteExclusiveRegistrantsOnly ||
         type == ReservationType::WriteExclusiveAllRegistrants;
}

/// What a command does to a unit that somebody else may have reserved: the columns of SPC-4 Table
/// 48 and SBC-3 Table 13, and those of SPC-2 Table 9 for RESERVE.
enum class ReservationClass : std::uint8_t {
  Always,         ///< never conflicts: INQUIRY, REPORT LUNS, REQUEST SENSE
  Harmless,       ///< conflicts with RESERVE only: TEST UNIT READY, READ CAPACITY
  Read,           ///< conflicts with exclusive access
  Write,          ///< conflicts with write exclusive, too
  Management,     ///< PERSISTENT RESERVE IN and OUT, which check registrations themselves
  LegacyReserve,  ///< RESERVE and RELEASE themselves
};

/// An I_T nexus by the names that outlive it.
struct NexusName {
  TransportId initiator;
  PortId port{};
  bool operator==(const NexusName&) const = default;
};

/// SERVICE ACTION of PERSISTENT RESERVE OUT (SPC-4 Table 184).
enum class ReserveAction : std::uint8_t {
  Register = 0,
  Reserve = 1,
  Release = 2,
  Clear = 3,
  Preempt = 4,
  PreemptAndAbort = 5,
  RegisterAndIgnore = 6,
  RegisterAndMove = 7,
};

struct ReserveRequest {
  ReserveAction action{};
  std::uint8_t scope_and_type{};  ///< octet 2 of the CDB
  ByteSpan parameters{};
};

/// What others have to be told, or lose, because of a PERSISTENT RESERVE OUT.
struct ReservationChange {
  struct Attention {
    NexusName nexus;
    SenseCode code{};
  };
  std::vector<Attention> attentions{};
  std::vector<NexusName> aborted{};  ///< their commands: PREEMPT AND ABORT
  bool must_be_saved{};              ///< what image() says is to be durable before the status
};

/// The caller locks.
class Reservations {
 public:
  static constexpr std::size_t kMaxRegistrations = 256;  // policy

  /// Ports that ALL_TG_PT stands for, and whether a store keeps what APTPL asks for.
  struct Facts {
    std::vector<PortId> ports;
    bool can_persist{};
  };

  [[nodiscard]] bool conflicts(const NexusName& nexus, ReservationClass command) const;

  Outcome<ReservationChange> out(const NexusName& nexus, const ReserveRequest& request,
                                 const Facts& facts);

  [[nodiscard]] ParameterData read_keys() const;
  [[nodiscard]] ParameterData read_reservation() const;
  [[nodiscard]] ParameterData report_capabilities(const Facts& facts) const;
  [[nodiscard]] ParameterData read_full_status() const;

  Outcome<void> legacy_reserve(const NexusName& nexus);
  Outcome<void> legacy_release(const NexusName& nexus);
  /// RESERVE does not survive resets and the loss of its nexus (SPC-2 §5.5.1).
  void drop_legacy() { legacy_holder_.reset(); }
  void drop_legacy_of(const NexusName& nexus);

  /// Registrations and reservation as octets for a store; empty of registrations unless APTPL.
  [[nodiscard]] std::vector<std::byte> image() const;
  /// The state of an image. Io if it is damaged; then nothing changes.
  Result<void> restore(ByteSpan image);

  [[nodiscard]] std::uint32_t generation() const { return generation_; }

 private:
  struct Registration {
    NexusName nexus;
    std::uint64_t key{};
    bool all_ports{};
  };
  struct Parameters;  // of PERSISTENT RESERVE OUT

  [[nodiscard]] Registration* find(const NexusName& nexus);
  [[nodiscard]] const Registration* find(const NexusName& nexus) const;
  [[nodiscard]] bool is_reserved() const { return type_ != ReservationType::None; }
  [[nodiscard]] bool is_holder(const NexusName& nexus) const;
  void set_reservation(ReservationType type, const NexusName& holder);
  void release(const NexusName& by, ReservationChange& change);
  void unregister(const NexusName& nexus, ReservationChange& change);
  void remove_key(std::optional<std::uint64_t> key, const NexusName& by, bool spares_own,
                  ReservationChange& change);

  Outcome<ReservationChange> register_nexus(const NexusName& nexus, const Parameters& parameters,
                                            bool ignores_key, const Facts& facts);
  Outcome<void> add_registrations(const NexusName& nexus, const Parameters& parameters,
                                  const Facts& facts);
  Outcome<ReservationChange> reserve(const NexusName& nexus, ReservationType type);
  Outcome<ReservationChange> release_by_command(const NexusName& nexus, ReservationType type);
  Outcome<ReservationChange> clear(const NexusName& nexus);
  Outcome<ReservationChange> preempt(const NexusName& nexus, const Parameters& parameters,
                                     ReservationType type, bool aborts);
  Outcome<ReservationChange> register_and_move(const NexusName& nexus, ByteSpan parameters,
                                               const Facts& facts);

  std::vector<Registration> registrations_;
  ReservationType type_{ReservationType::None};
  NexusName holder_;  // unless type_ is None or one of all registrants
  std::uint32_t generation_{};
  bool persists_{};
  std::optional<NexusName> legacy_holder_;
};

}  // namespace weft::scsi
