#pragma once

// Status codes (SAM-5 §5.3.1) and sense data (SPC-4 §4.5). Value types.

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"

namespace weft::scsi {

enum class Status : std::uint8_t {
  Good = 0x00,
  CheckCondition = 0x02,
  ConditionMet = 0x04,
  Busy = 0x08,
  ReservationConflict = 0x18,
  TaskSetFull = 0x28,
  AcaActive = 0x30,
  TaskAborted = 0x40,
};

enum class SenseKey : std::uint8_t {
  NoSense = 0x0,
  NotReady = 0x2,
  MediumError = 0x3,
  HardwareError = 0x4,
  IllegalRequest = 0x5,
  UnitAttention = 0x6,
  DataProtect = 0x7,
  CopyAborted = 0xA,
  AbortedCommand = 0xB,
  Miscompare = 0xE,
};

/// ADDITIONAL SENSE CODE in the upper octet, its QUALIFIER in the lower (SPC-4 Annex F.2).
enum class SenseCode : std::uint16_t {
  None = 0x0000,
  OperationInProgress = 0x0016,
  TransitioningAccessState = 0x040A,
  StandbyAccessState = 0x040B,
  UnavailableAccessState = 0x040C,
  InitializingCommandRequired = 0x0402,
  SanitizeInProgress = 0x041B,
  UnreachableCopyTarget = 0x0804,
  WriteError = 0x0C00,
  ThirdPartyDeviceFailure = 0x0D01,
  CopyTargetDeviceNotReachable = 0x0D02,
  IncorrectCopyTargetDeviceType = 0x0D03,
  InvalidFieldInCommandInformationUnit = 0x0E03,
  GuardCheckFailed = 0x1001,
  ApplicationTagCheckFailed = 0x1002,
  ReferenceTagCheckFailed = 0x1003,
  UnrecoveredReadError = 0x1100,
  ParameterListLengthError = 0x1A00,
  MiscompareDuringVerify = 0x1D00,
  InvalidCommandOperationCode = 0x2000,
  LbaOutOfRange = 0x2100,
  InvalidFieldInCdb = 0x2400,
  LogicalUnitNotSupported = 0x2500,
  InvalidFieldInParameterList = 0x2600,
  InvalidReleaseOfPersistentReservation = 0x2604,
  TooManyTargetDescriptors = 0x2606,
  UnsupportedTargetDescriptorTypeCode = 0x2607,
  TooManySegmentDescriptors = 0x2608,
  UnsupportedSegmentDescriptorTypeCode = 0x2609,
  WriteProtected = 0x2700,
  SpaceAllocationFailed = 0x2707,
  PowerOnOccurred = 0x2900,
  ScsiBusResetOccurred = 0x2902,
  BusDeviceResetOccurred = 0x2903,
  NexusLossOccurred = 0x2907,
  ModeParametersChanged = 0x2A01,
  ReservationsPreempted = 0x2A03,
  ReservationsReleased = 0x2A04,
  RegistrationsPreempted = 0x2A05,
  AccessStateChanged = 0x2A06,
  CapacityDataChanged = 0x2A09,
  CommandsClearedByAnotherInitiator = 0x2F00,
  SanitizeCommandFailed = 0x3103,
  SavingParametersNotSupported = 0x3900,
  MediumNotPresent = 0x3A00,
  ReportedLunsDataChanged = 0x3F0E,
  InternalTargetFailure = 0x4400,
  InvalidMessage = 0x4900,
  OverlappedCommandsAttempted = 0x4E00,
  MediumRemovalPrevented = 0x5302,
  InsufficientRegistrationResources = 0x5504,
  SetTargetPortGroupsFailed = 0x670A,
};

/// Which field was wrong (SPC-4 §4.5.2.4.2); `octet` and `bit` of its most significant bit.
struct FieldPointer {
  bool in_cdb{true};  ///< else in the parameter list
  std::uint16_t octet{};
  std::optional<std::uint8_t> bit{};
  bool operator==(const FieldPointer&) const = default;
};

/// Why a command ended with CHECK CONDITION, or what REQUEST SENSE returns.
struct Sense {
  SenseKey key{};
  SenseCode code{};
  std::optional<std::uint64_t> information{};  ///< an LBA, or an offset for MISCOMPARE
  std::optional<FieldPointer> field{};
  std::optional<std::uint16_t> progress{};  ///< in 65536ths, instead of `field`
  bool operator==(const Sense&) const = default;
};

/// Sense data as octets, of either format.
class SenseData {
 public:
  static constexpr std::size_t kMaxBytes = 28;
  enum class Format : std::uint8_t { Fixed, Descriptor };

  SenseData() = default;
  SenseData(const Sense& sense, Format format);

  [[nodiscard]] ByteSpan octets() const { return ByteSpan{octets_}.first(size_); }

 private:
  std::array<std::byte, kMaxBytes> octets_{};
  std::size_t size_{};
};

/// What a command ends with unless it succeeds: CHECK CONDITION with sense, or a status without.
struct Failure {
  Status status{Status::CheckCondition};
  Sense sense{};
};

/// A value, or how the command ends instead.
template <class T>
using Outcome = std::expected<T, Failure>;

[[nodiscard]] inline std::unexpected<Failure> check_condition(const Sense& sense) {
  return std::unexpected(Failure{.sense = sense});
}
[[nodiscard]] inline std::unexpected<Failure> illegal_request(SenseCode code) {
  return check_condition({.key = SenseKey::IllegalRequest, .code = code});
}
[[nodiscard]] std::unexpected<Failure> invalid_field_in_cdb(std::uint16_t octet, std::uint8_t bit);
[[nodiscard]] std::unexpected<Failure> invalid_field_in_parameters(std::size_t octet);
/// Ends with a status that has no sense data.
[[nodiscard]] inline std::unexpected<Failure> end_with(Status status) {
  return std::unexpected(Failure{.status = status});
}

}  // namespace weft::scsi
