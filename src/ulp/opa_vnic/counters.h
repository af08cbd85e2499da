#pragma once

#include <cstddef>
#include <cstdint>

#include "ulp/opa_vnic/frame.h"
#include "wire/opa/vesw_port_counters.h"

namespace weft::opa_vnic {

/// Why a frame of the interface was not sent.
enum class TxDrop : std::uint8_t {
  State,         ///< the port does not forward, or the OPA port is down
  SourceFilter,  ///< the MAC table lists sources, and this is none
  NoDlid,
  Logic,  ///< no Ethernet header, or longer than the MTU
};

/// Why a packet of the fabric was not delivered.
enum class RxDrop : std::uint8_t {
  Damaged,
  BadVesw,
  EthDown,  ///< the OPA port is down
  State,    ///< the port does not forward
  Runt,
  Oversize,
  NotForUs,  ///< flooded to here, for another station; no error
};

/// Counters of a virtual port (R-VN-19). Bytes and sizes include the FCS, which no frame here has.
class Counters {
 public:
  void count_sent(const FrameFacts& facts, std::size_t frame_bytes);
  void count_received(const FrameFacts& facts, std::size_t frame_bytes);
  void count(TxDrop drop);
  void count(RxDrop drop);
  void clear() { *this = {}; }

  /// Without their heads.
  [[nodiscard]] const wire::VeswPortSummaryCounters& summary() const { return summary_; }
  [[nodiscard]] const wire::VeswPortErrorCounters& errors() const { return errors_; }
  [[nodiscard]] std::uint64_t not_for_us() const { return not_for_us_; }

 private:
  wire::VeswPortSummaryCounters summary_;
  wire::VeswPortErrorCounters errors_;
  std::uint64_t not_for_us_{};
};

}  // namespace weft::opa_vnic
