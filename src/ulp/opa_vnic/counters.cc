#include "ulp/opa_vnic/counters.h"

#include <array>

namespace weft::opa_vnic {
namespace {

using Summary = wire::VeswPortSummaryCounters;
using Counter = std::uint64_t Summary::*;

constexpr std::size_t kFcsBytes = 4;

/// The counter of frames of up to so many bytes.
struct SizeClass {
  std::size_t most_bytes;
  Counter sent;
  Counter received;
};
constexpr std::array kSizeClasses{
    SizeClass{64,     &Summary::tx_64,        &Summary::rx_64       },
    SizeClass{127,    &Summary::tx_65_127,    &Summary::rx_65_127   },
    SizeClass{255,    &Summary::tx_128_255,   &Summary::rx_128_255  },
    SizeClass{511,    &Summary::tx_256_511,   &Summary::rx_256_511  },
    SizeClass{1023,   &Summary::tx_512_1023,  &Summary::rx_512_1023 },
    SizeClass{1518,   &Summary::tx_1024_1518, &Summary::rx_1024_1518},
    SizeClass{65'535, &Summary::tx_1519_max,  &Summary::rx_1519_max },
};

const SizeClass& class_of(std::size_t bytes) {
  for (const SizeClass& one : kSizeClasses) {
    if (bytes <= one.most_bytes) {
      return one;
    }
  }
  return kSizeClasses.back();
}

}  // namespace

void Counters::count_sent(const FrameFacts& facts, std::size_t frame_bytes) {
  const std::size_t bytes = frame_bytes + kFcsBytes;
  ++summary_.tx_packets;
  summary_.tx_bytes += bytes;
  ++(facts.destination.is_multicast() ? summary_.tx_multicast : summary_.tx_unicast);
  ++(facts.priority ? summary_.tx_vlan : summary_.tx_untagged);
  ++(summary_.*class_of(bytes).sent);
}

void Counters::count_received(const FrameFacts& facts, std::size_t frame_bytes) {
  const std::size_t bytes = frame_bytes + kFcsBytes;
  ++summary_.rx_packets;
  summary_.rx_bytes += bytes;
  ++(facts.destination.is_multicast() ? summary_.rx_multicast : summary_.rx_unicast);
  ++(facts.priority ? summary_.rx_vlan : summary_.rx_untagged);
  ++(summary_.*class_of(bytes).received);
}

void Counters::count(TxDrop drop) {
  ++summary_.tx_errors;
  ++errors_.tx_errors;
  switch (drop) {
    case TxDrop::State:
      ++errors_.tx_drop_state;
      return;
    case TxDrop::SourceFilter:
      ++errors_.tx_smac_filt;
      return;
    case TxDrop::NoDlid:
      ++errors_.tx_dlid_zero;
      return;
    case TxDrop::Logic:
      ++errors_.tx_logic;
      return;
  }
}

void Counters::count(RxDrop drop) {
  if (drop == RxDrop::NotForUs) {
    ++not_for_us_;
    return;
  }
  ++summary_.rx_errors;
  ++errors_.rx_errors;
  switch (drop) {
    case RxDrop::Damaged:
      ++errors_.rx_logic;
      return;
    case RxDrop::BadVesw:
      ++errors_.rx_bad_veswid;
      return;
    case RxDrop::EthDown:
      ++errors_.rx_eth_down;
      return;
    case RxDrop::State:
      ++errors_.rx_drop_state;
      return;
    case RxDrop::Runt:
      ++errors_.rx_runt;
      return;
    case RxDrop::Oversize:
      ++errors_.rx_oversize;
      return;
    case RxDrop::NotForUs:
      return;
  }
}

}  // namespace weft::opa_vnic
