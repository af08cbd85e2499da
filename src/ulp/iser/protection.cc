#include "ulp/iser/protection.h"

#include <array>
#include <utility>

namespace weft::iser {
namespace {

[[nodiscard]] core::SignatureDomain domain_of(const TaskProtection& protection, bool is_there,
                                              scsi::GuardKind guard) {
  const bool is_type_3 = protection.type == scsi::ProtectionType::Type3;
  core::SignatureDomain domain;
  domain.type = is_there ? core::SignatureType::T10Dif : core::SignatureType::None;
  domain.dif = {.guard = guard == scsi::GuardKind::Crc ? core::T10DifDomain::Guard::Crc
                                                       : core::T10DifDomain::Guard::IpChecksum,
                .protection_interval = protection.block_bytes,
                .guard_seed = 0,
                .application_tag = protection.application_tag,
                // The low half of a block's address (SBC-3 §4.22.2.3).
                .reference_tag = protection.type == scsi::ProtectionType::Type1
                                     ? static_cast<std::uint32_t>(protection.first_block)
                                     : protection.first_reference,
                .remaps_reference_tag = !is_type_3,
                // Tuples whose tags say so are not checked (SBC-3 §4.22.2).
                .application_escape = true,
                .reference_escape = is_type_3,
                .application_check_mask = protection.application_mask};
  return domain;
}

}  // namespace

HostProtections host_protections_of(const core::DeviceAttributes& device) {
  using enum HostProtection;
  return device.capabilities.has(core::DeviceCapability::Integrity)
             ? HostProtections{DifType1} | DifType2 | DifType3 | DixType0 | DixType1 | DixType2 |
                   DixType3
             : HostProtections{};
}

HostGuards host_guards_of(const core::DeviceAttributes& device) {
  return device.capabilities.has(core::DeviceCapability::Integrity)
             ? HostGuards{HostGuard::Crc} | HostGuard::IpChecksum
             : HostGuards{};
}

std::uint64_t wire_bytes_of(const TaskProtection& protection, std::uint64_t data_bytes) {
  return protection.on_wire ? data_bytes + data_bytes / protection.block_bytes * scsi::kTupleBytes
                            : data_bytes;
}

TaskProtection protection_of(const scsi::BlockProtection& how) {
  const scsi::ProtectionCheck& check = how.check;
  const bool is_type_3 = check.type == scsi::ProtectionType::Type3;
  return {.type = check.type,
          .on_wire = how.transfers_tuples,
          .in_memory = true,
          .memory_guard = check.guard_kind,
          .block_bytes = static_cast<std::uint16_t>(check.block_bytes),
          .first_block = how.lba,
          // What is made for Type 3 is not to be checked by anybody (SBC-3 §4.22.2).
          .first_reference = is_type_3 ? wire::kNoCheckReferenceTag : check.expected_reference,
          .application_tag = check.expected_application,
          .application_mask = check.application_mask,
          .checks_guard = check.guard,
          .checks_application_tag = check.application_tag,
          .checks_reference_tag = check.reference_tag};
}

std::optional<scsi::ProtectionError> error_of(const scsi::BlockProtection& how,
                                              const core::SignatureStatus& status) {
  std::uint64_t block = 0;
  const ProtectionVerdict verdict = verdict_of(protection_of(how), status, block);
  if (verdict == ProtectionVerdict::None) {
    return std::nullopt;
  }
  static constexpr std::array kFaults{scsi::ProtectionFault::Guard,
                                      scsi::ProtectionFault::ApplicationTag,
                                      scsi::ProtectionFault::ReferenceTag};
  return scsi::ProtectionError{.fault = kFaults.at(std::to_underlying(verdict) - 1U),
                               .block = block - how.lba};
}

core::SignatureAttributes signature_of(const TaskProtection& protection) {
  core::SignatureAttributes attributes;
  if (protection.checks_guard) {
    attributes.check_mask |= verbs::kCheckGuard;
  }
  if (protection.checks_application_tag) {
    attributes.check_mask |= verbs::kCheckApplicationTag;
  }
  if (protection.checks_reference_tag && protection.type != scsi::ProtectionType::Type3) {
    attributes.check_mask |= verbs::kCheckReferenceTag;
  }
  attributes.memory = domain_of(protection, protection.in_memory, protection.memory_guard);
  attributes.wire = domain_of(protection, protection.on_wire, scsi::GuardKind::Crc);
  return attributes;
}

ProtectionVerdict verdict_of(const TaskProtection& protection, const core::SignatureStatus& status,
                             std::uint64_t& block) {
  if (!status.failed) {
    return ProtectionVerdict::None;
  }
  block = protection.first_block + status.offset / (protection.block_bytes + scsi::kTupleBytes);
  static constexpr std::array kVerdicts{ProtectionVerdict::Guard, ProtectionVerdict::ReferenceTag,
                                        ProtectionVerdict::ApplicationTag};
  static_assert(std::to_underlying(core::SignatureError::BadGuard) == 0 &&
                std::to_underlying(core::SignatureError::BadReferenceTag) == 1 &&
                std::to_underlying(core::SignatureError::BadApplicationTag) == 2);
  return kVerdicts.at(std::to_underlying(status.error));
}

}  // namespace weft::iser
