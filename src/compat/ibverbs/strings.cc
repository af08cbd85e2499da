// Names and rates: tables of the verbs API.

#include <array>
#include <utility>

#include "compat/ibverbs/objects.h"

namespace {

template <std::size_t kCount>
[[nodiscard]] const char* at(const std::array<const char*, kCount>& names, unsigned index,
                             const char* otherwise) {
  return index < kCount ? names[index] : otherwise;
}

struct Rate {
  ibv_rate rate;
  int multiple;  // of 2.5 Gb/s; 0 if it is no integer
  int mbps;
};

constexpr std::array kRates = {
    Rate{IBV_RATE_2_5_GBPS, 1,  2'500  },
    Rate{IBV_RATE_5_GBPS,   2,  5'000  },
    Rate{IBV_RATE_10_GBPS,  4,  10'000 },
    Rate{IBV_RATE_20_GBPS,  8,  20'000 },
    Rate{IBV_RATE_30_GBPS,  12, 30'000 },
    Rate{IBV_RATE_40_GBPS,  16, 40'000 },
    Rate{IBV_RATE_60_GBPS,  24, 60'000 },
    Rate{IBV_RATE_80_GBPS,  32, 80'000 },
    Rate{IBV_RATE_120_GBPS, 48, 120'000},
    Rate{IBV_RATE_14_GBPS,  0,  14'062 },
    Rate{IBV_RATE_56_GBPS,  0,  56'250 },
    Rate{IBV_RATE_112_GBPS, 0,  112'500},
    Rate{IBV_RATE_168_GBPS, 0,  168'750},
    Rate{IBV_RATE_25_GBPS,  0,  25'781 },
    Rate{IBV_RATE_100_GBPS, 0,  103'125},
    Rate{IBV_RATE_200_GBPS, 0,  206'250},
    Rate{IBV_RATE_300_GBPS, 0,  309'375},
    Rate{IBV_RATE_28_GBPS,  0,  28'125 },
    Rate{IBV_RATE_50_GBPS,  0,  53'125 },
    Rate{IBV_RATE_400_GBPS, 0,  425'000},
    Rate{IBV_RATE_600_GBPS, 0,  637'500},
};

}  // namespace

extern "C" {

WEFT_EXPORT const char* ibv_node_type_str(ibv_node_type node_type) {
  static constexpr std::array kNames{"unknown",           "InfiniBand channel adapter",
                                     "InfiniBand switch", "InfiniBand router",
                                     "iWARP NIC",         "usNIC",
                                     "usNIC UDP",         "unspecified"};
  return at(kNames, static_cast<unsigned>(node_type), "unknown");
}

WEFT_EXPORT const char* ibv_port_state_str(ibv_port_state port_state) {
  static constexpr std::array kNames{"no state change (NOP)", "down", "init", "armed", "active",
                                     "active defer"};
  return at(kNames, static_cast<unsigned>(port_state), "unknown");
}

WEFT_EXPORT const char* ibv_event_type_str(ibv_event_type event) {
  static constexpr std::array kNames{"CQ error",
                                     "local work queue catastrophic error",
                                     "invalid request local work queue error",
                                     "local access violation work queue error",
                                     "communication established",
                                     "send queue drained",
                                     "path migrated",
                                     "path migration request error",
                                     "local catastrophic error",
                                     "port active",
                                     "port error",
                                     "LID change",
                                     "P_Key change",
                                     "SM change",
                                     "SRQ catastrophic error",
                                     "SRQ limit reached",
                                     "last WQE reached",
                                     "client reregistration",
                                     "GID table change",
                                     "WQ fatal"};
  return at(kNames, static_cast<unsigned>(event), "unknown");
}

WEFT_EXPORT const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array kNames{"success",
                                     "local length error",
                                     "local QP operation error",
                                     "local EE context operation error",
                                     "local protection error",
                                     "Work Request Flushed Error",
                                     "memory management operation error",
                                     "bad response error",
                                     "local access error",
                                     "remote invalid request error",
                                     "remote access error",
                                     "remote operation error",
                                     "transport retry counter exceeded",
                                     "RNR retry counter exceeded",
                                     "local RDD violation error",
                                     "remote invalid RD request",
                                     "aborted error",
                                     "invalid EE context number",
                                     "invalid EE context state",
                                     "fatal error",
                                     "response timeout error",
                                     "general error",
                                     "TM error",
                                     "TM software rendezvous"};
  return at(kNames, static_cast<unsigned>(status), "unknown");
}

WEFT_EXPORT int ibv_rate_to_mult(ibv_rate rate) {
  for (const Rate& known : kRates) {
    if (known.rate == rate && known.multiple != 0) {
      return known.multiple;
    }
  }
  return -1;
}

WEFT_EXPORT ibv_rate mult_to_ibv_rate(int multiple) {
  for (const Rate& known : kRates) {
    if (known.multiple == multiple && multiple != 0) {
      return known.rate;
    }
  }
  return IBV_RATE_MAX;
}

WEFT_EXPORT int ibv_rate_to_mbps(ibv_rate rate) {
  for (const Rate& known : kRates) {
    if (known.rate == rate) {
      return known.mbps;
    }
  }
  return -1;
}

WEFT_EXPORT ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& known : kRates) {
    if (known.mbps == mbps) {
      return known.rate;
    }
  }
  return IBV_RATE_MAX;
}

/// Added by rdma-core 50, with its texts; the installed header may not declare it.
WEFT_EXPORT const char* ibv_wr_opcode_str(unsigned opcode) {
  static constexpr std::array<const char*, 16> kNames{"rdma-write",
                                                      "rdma-write-with-imm",
                                                      "send",
                                                      "send-with-imm",
                                                      "rdma-read",
                                                      "atomic-cmp-and-swp",
                                                      "atomic-fetch-and-add",
                                                      "local-inv",
                                                      "bind-mw",
                                                      "send-with-inv",
                                                      "tso",
                                                      "driver1",
                                                      "unknown",
                                                      "unknown",
                                                      "flush",
                                                      "atomic-write"};
  return at(kNames, opcode, "unknown");
}

}  // extern "C"
