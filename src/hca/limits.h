#pragma once

#include <cstdint>

namespace weft::hca {

/// Limits that a device reports and enforces (docs/ARCHITECTURE.md, decision 15). All values are
/// policy, not from the specification, unless a clause is given.
struct DeviceLimits {
  std::uint32_t max_qp = 16'384;  // per process and HCA: the range of a QPN's index part
  std::uint32_t max_qp_wr = 16'384;
  std::uint32_t max_sge = 32;
  std::uint32_t max_inline_data = 1'024;  // bytes
  std::uint32_t max_cq = 65'536;
  std::uint32_t max_cqe = 4'194'303;
  std::uint32_t max_mr = 65'536;
  std::uint32_t max_mw = 16'384;
  std::uint64_t max_mr_size = std::uint64_t{1} << 46;
  std::uint32_t max_pd = 65'536;
  std::uint32_t max_ah = 65'536;
  std::uint32_t max_srq = 16'384;
  std::uint32_t max_srq_wr = 32'767;
  std::uint32_t max_srq_sge = 32;
  std::uint32_t max_wq = 4'096;
  std::uint32_t max_indirection_tables = 4'096;
  std::uint32_t max_xrcd = 4'096;
  std::uint32_t max_qp_rd_atomic = 128;        // responder resources of one QP
  std::uint32_t max_message_bytes = 1U << 31;  // the maximum of the specification
  std::uint32_t max_mcast_groups = 8'192;
  std::uint32_t max_mcast_qps_per_group = 240;
};

}  // namespace weft::hca
