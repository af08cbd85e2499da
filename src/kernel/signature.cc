#include "kernel/signature.h"

#include <algorithm>

namespace weft::kernel {
namespace {

[[nodiscard]] core::SignatureDomain domain_of(const ib_sig_domain& domain) {
  core::SignatureDomain made;
  made.type = domain.sig_type == IB_SIG_TYPE_T10_DIF ? core::SignatureType::T10Dif
                                                     : core::SignatureType::None;
  const ib_t10_dif_domain& dif = domain.sig.dif;
  made.dif = {.guard = dif.bg_type == IB_T10DIF_CSUM ? core::T10DifDomain::Guard::IpChecksum
                                                     : core::T10DifDomain::Guard::Crc,
              .protection_interval = dif.pi_interval,
              .guard_seed = dif.bg,
              .application_tag = dif.app_tag,
              .reference_tag = dif.ref_tag,
              .remaps_reference_tag = dif.ref_remap,
              .application_escape = dif.app_escape,
              .reference_escape = dif.ref_escape,
              .application_check_mask = dif.apptag_check_mask};
  return made;
}

[[nodiscard]] ib_sig_err_type error_to_c(core::SignatureError error) {
  switch (error) {
    case core::SignatureError::BadGuard:
      return IB_SIG_BAD_GUARD;
    case core::SignatureError::BadReferenceTag:
      return IB_SIG_BAD_REFTAG;
    case core::SignatureError::BadApplicationTag:
      break;
  }
  return IB_SIG_BAD_APPTAG;
}

}  // namespace

core::SignatureAttributes signature_of(const ib_sig_attrs& attributes) {
  return {.check_mask = attributes.check_mask,
          .memory = domain_of(attributes.mem),
          .wire = domain_of(attributes.wire),
          .metadata_length = static_cast<std::uint64_t>(std::max(attributes.meta_length, 0))};
}

ib_mr_status to_c(const core::SignatureStatus& status) {
  ib_mr_status made{};
  made.fail_status = status.failed ? IB_MR_CHECK_SIG_STATUS : 0;
  made.sig_err = {.err_type = error_to_c(status.error),
                  .expected = status.expected,
                  .actual = status.actual,
                  .sig_err_offset = status.offset,
                  .key = status.key};
  return made;
}

}  // namespace weft::kernel
