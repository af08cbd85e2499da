#pragma once

// The way to a logical unit of an iSCSI target: a session, the links under it, and the thread of
// all.

#include <asio/io_context.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "iscsi/initiator_session.h"
#include "programs/disk/disk_path.h"
#include "programs/iscsi/libcrypto_chap.h"
#include "programs/iscsi/link.h"
#include "programs/loop/deadline_timer.h"
#include "programs/loop/handoff_list.h"
#include "scsi/lun.h"

namespace weft::programs::iscsi {

/// What SendTargets says (RFC 7143 Appendix C).
struct FoundTarget {
  std::string name{};
  std::vector<std::string> addresses{};  ///< HOST:PORT,GROUP
};

class InitiatorPath final : public disk::DiskPath, private weft::iscsi::InitiatorEnvironment {
 public:
  /// What is worth saying of the session goes to `log`, from its thread.
  using Log = std::function<void(const std::string&)>;
  InitiatorPath(const weft::iscsi::InitiatorOptions& options, scsi::Lun lun, Log log,
                LinkKind links = tcp_links());
  /// Logs out, in bounds.
  ~InitiatorPath() override;
  InitiatorPath(const InitiatorPath&) = delete;
  InitiatorPath& operator=(const InitiatorPath&) = delete;

  /// Starts the thread and logs in; Io with the reason why not.
  Result<void> open();
  disk::DiskAnswer execute(const disk::DiskCommand& command) override;
  /// Of a discovery session that is open.
  Result<std::vector<FoundTarget>> discover();

 private:
  class Call;
  void connect(std::uint16_t cid, std::string_view address) override;
  void cancel_connect(std::uint16_t cid) override;
  void handle_state(weft::iscsi::SessionState state, std::string_view reason) override;
  void handle_scsi_event(std::uint64_t /*lun*/, ByteSpan /*sense*/) override {}
  [[nodiscard]] weft::iscsi::ChapLibrary& chap_library() override { return chap_; }
  void act(std::function<void(Instant)> act);
  void submit_all();
  void settle();
  void expire();
  [[nodiscard]] bool wait_for_state(const std::function<bool(weft::iscsi::SessionState)>& wanted,
                                    Duration span);

  const std::uint64_t lun_;  // as in PDUs
  const Log log_;
  const Duration patience_;
  asio::io_context loop_;
  DeadlineTimer timer_{loop_, [this] { expire(); }};
  LibcryptoChap chap_;
  const LinkKind kind_;
  std::vector<std::unique_ptr<Link>> links_;  // by CID
  weft::iscsi::InitiatorSession session_;
  HandoffList<Call> submitted_;
  std::thread thread_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  weft::iscsi::SessionState state_{};
  std::string reason_;
};

}  // namespace weft::programs::iscsi
