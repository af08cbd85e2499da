#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "hca/hca.h"

namespace weft::host {

/// What objects that several processes share need of the process that they are in: its engines, and
/// its QPs as its driver makes, changes and destroys them. Without locks of the driver held.
class LocalObjects {
 public:
  LocalObjects() = default;
  virtual ~LocalObjects() = default;
  LocalObjects(const LocalObjects&) = delete;
  LocalObjects& operator=(const LocalObjects&) = delete;

  /// Both threads of the process run from now on: others may need something of it at any time.
  virtual void start_serving() = 0;

  [[nodiscard]] virtual hca::Hca& engine(std::uint32_t hca) = 0;
  [[nodiscard]] virtual Result<void> modify_qp(hca::Qp& qp, const hca::QpAttributes& attributes,
                                               hca::QpAttributeMask mask) = 0;
  [[nodiscard]] virtual Result<void> destroy_qp(std::uint32_t hca, hca::Qp& qp) = 0;

  /// Carries from now on for a proxy QP that its engine has just made.
  virtual void carry_for_proxy(std::uint32_t hca, hca::Qp& qp) = 0;

  /// Calls `visit` for every QP of the XRC domain with that name, while none of them is destroyed
  /// and nothing is delivered; those for which it returns true may have something to send.
  virtual void for_each_qp_of(std::uint32_t domain, const std::function<bool(hca::Qp&)>& visit) = 0;
};

}  // namespace weft::host
