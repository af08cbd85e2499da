#pragma once

// What a program holds of an HCA at one moment, as a kernel tells an administrator of it. Values.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/serial.h"
#include "hca/types.h"

namespace weft::hca {

/// Numbers are the HCA's own in this process, for each kind of object by itself.
struct HeldObjects {
  struct Pd {
    std::uint32_t number{};
    std::uint32_t uses{};  ///< objects inside
  };
  struct Cq {
    std::uint32_t number{};
    std::uint32_t capacity{};
    std::uint32_t uses{};  ///< queues that complete there
  };
  struct Mr {
    std::uint32_t number{};
    LKey lkey{};
    RKey rkey{};
    std::uint64_t length{};  ///< bytes
    std::uint32_t pd{};
  };
  struct Srq {
    std::uint32_t number{};
    bool is_xrc{};
    std::uint32_t pd{};
    std::optional<std::uint32_t> cq{};  ///< of an XRC SRQ
  };
  struct Qp {
    Qpn number{};
    QpType type{};
    QpState state{};
    PortNumber port{};
    Qpn dest{};  ///< of a connected QP
    Psn rq_psn;
    Psn sq_psn;
    MigrationState migration{};
    std::uint32_t pd{};
  };

  std::vector<Pd> pds{};
  std::vector<Cq> cqs{};
  std::vector<Mr> mrs{};
  std::vector<Srq> srqs{};
  std::vector<Qp> qps{};
};

}  // namespace weft::hca
