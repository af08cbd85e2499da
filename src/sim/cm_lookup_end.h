#pragma once

#include <cstdint>

#include "cm/connection_manager.h"
#include "sim/cm_end.h"

namespace weft::sim {

/// One end of a SIDR exchange (IBTA vol 1 §12.11), client or server. It has no QP. Reports to the
/// ledgers.
class CmLookupEnd final : public CmEnd, public cm::CmObserver {
 public:
  using CmEnd::CmEnd;

  void ask(const cm::Path& path, std::uint64_t service_id, Instant now);
  /// Takes over the id of an incoming request.
  [[nodiscard]] cm::Handled take(cm::CmId id, const cm::CmEvent& request, Instant now);
  [[nodiscard]] cm::Handled handle(cm::CmId id, const cm::CmEvent& event, Instant now) override;

  [[nodiscard]] bool is_over() const override { return is_over_; }
  [[nodiscard]] Instant deadline() const override;
  void step(Instant now) override;
  void communication_established(Instant /*now*/) override {}
  void path_migrated(Instant /*now*/) override {}
  void die(bool with_host, Instant now) override;

 private:
  void answer(Instant now);
  void leave(CmTermination termination, Instant now);

  cm::CmId id_{};
  Instant asked_at_{};
  Instant answers_at_{Instant::never()};
  bool is_over_{};
};

}  // namespace weft::sim
