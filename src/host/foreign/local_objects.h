#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "hca/hca.h"

namespace weft::host {

/// What shared objects need of the process they are in: its engines, and creation, change and
/// destruction of QPs by its driver. Called without locks of the driver held.
class LocalObjects {
 public:
  LocalObjects() = default;
  virtual ~LocalObjects() = default;
  LocalObjects(const LocalObjects&) = delete;
  LocalObjects& operator=(const LocalObjects&) = delete;

  /// Starts both threads of the process, since others may send requests at any time from now on.
  virtual void start_serving() = 0;

  [[nodiscard]] virtual hca::Hca& engine(std::uint32_t hca) = 0;
  [[nodiscard]] virtual Result<void> modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                               hca::QpAttributeMask mask) = 0;
  [[nodiscard]] virtual Result<void> destroy_qp(std::uint32_t hca, hca::Qp& qp) = 0;

  /// Takes over a proxy QP that its engine has just created.
  virtual void carry_for_proxy(std::uint32_t hca, hca::Qp& qp) = 0;

  /// Calls `visit` for every QP of the named XRC domain, while deliveries are stopped and none of
  /// the QPs is destroyed. QPs for which it returns true are scheduled for transmission.
  virtual void for_each_qp_of(std::uint32_t domain, const std::function<bool(hca::Qp&)>& visit) = 0;
};

}  // namespace weft::host
