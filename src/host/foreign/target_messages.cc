#include "host/foreign/target_messages.h"

namespace weft::host {
namespace {

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

}  // namespace

uabi::RdmaCmQpAttributes to_words(const hca::QpAttributes& in, std::uint32_t mask) {
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

Result<hca::QpAttributes> from_words(const uabi::RdmaCmQpAttributes& in,
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

}  // namespace weft::host
