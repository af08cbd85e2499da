#pragma once

#include "base/result.h"
#include "core/qp.h"
#include "core/xrcd.h"

namespace weft::core {

/// Where a UD QP sends what names no destination (R-QP-5).
struct DefaultDestination {
  Ah* ah{};
  Qpn qpn{};
};

/// What the files of QPs (core/qp*.cc) do inside a QP.
struct QpAccess {
  static Result<Qp*> create(Device& device, Pd* pd, QpInit& init);
  static Result<void> destroy(Qp& qp);
  static Result<void> modify(Qp& qp, const QpModify& modify);
  static Result<Qp*> open(Qp& real, const QpOpen& open);
  static void close(Qp& handle);
  static Result<Qp*> open_target(Xrcd& xrcd, const QpOpen& open);
  static Result<void> destroy_opened(Qp& handle);
  static Result<Qp*> create_target(Device& device, QpInit& init);
  static void enter(Qp& qp);
  static void leave(Qp& qp);
  static void visit_all(Device& device, bool special, const std::function<void(Qp&)>& visit);
  static Result<void> attach(Qp& qp, const Gid& gid, Lid lid);
  static Result<void> detach(Qp& qp, const Gid& gid, Lid lid);
  static Result<void> set_default_destination(Qp& qp, const verbs::QpAttributes& attributes);
  [[nodiscard]] static const DefaultDestination* default_destination(const Qp& qp) {
    return qp.default_destination_.get();
  }
};

}  // namespace weft::core
