#pragma once

// Sessions of one process and one thread that keep commands of one kind under way with a unit, over
// TCP or another transport.

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "iscsi/initiator_options.h"
#include "programs/iscsi/libcrypto_chap.h"
#include "programs/iscsi/link.h"
#include "programs/load/load_meter.h"
#include "scsi/lun.h"

namespace weft::programs::iscsi {

class LoadRun final {
 public:
  /// Of each session its options: one connection, and an ISID of its own.
  LoadRun(const std::vector<weft::iscsi::InitiatorOptions>& sessions, scsi::Lun lun,
          const load::LoadOptions& options, load::LoadMeter meter, const LinkKind& links);
  ~LoadRun();
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  /// Returns when the time is over, or when no session is left. Once.
  [[nodiscard]] load::LoadResult run();

 private:
  class Lane;
  enum class Phase : std::uint8_t { LoggingIn, Running, Draining, LoggingOut };

  void tick();
  void go_on(Instant now);
  void enter(Phase phase, Instant now);
  /// Of every session, or of time that ends a phase that waits for peers.
  [[nodiscard]] bool is_done_with(bool (Lane::*is_so)() const, Instant now) const;

  const std::uint64_t lun_;  // as in PDUs
  const load::LoadOptions options_;
  load::LoadMeter meter_;
  LibcryptoChap chap_;
  asio::io_context loop_;
  asio::steady_timer timer_{loop_};
  std::vector<std::unique_ptr<Lane>> lanes_;
  Phase phase_{Phase::LoggingIn};
  Instant patience_{Instant::never()};  // of phases that wait for peers
};

}  // namespace weft::programs::iscsi
