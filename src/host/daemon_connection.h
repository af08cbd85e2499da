#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "host/control_socket.h"
#include "host/foreign/daemon_channel.h"
#include "host/process.h"
#include "os/unique_fd.h"
#include "uabi/messages.h"

namespace weft::host {

/// What a process does about what its daemon says. One call at a time, without locks held: on the
/// control thread, and before there is one, on that of who attaches or asks for news.
class DaemonHandler {
 public:
  DaemonHandler() = default;
  virtual ~DaemonHandler() = default;
  DaemonHandler(const DaemonHandler&) = delete;
  DaemonHandler& operator=(const DaemonHandler&) = delete;

  /// The process is joined with another: memory for their lanes, and the other's attention page.
  virtual void handle_lane(const uabi::Lane& lane, std::vector<os::UniqueFd>& descriptors) = 0;
  /// There is no such process, or it is gone.
  virtual void handle_peer_gone(uabi::ProcessAddress peer) = 0;
  virtual void handle_tables(const os::UniqueFd& file) = 0;
  virtual void handle_tap(const uabi::OpenTap& tap, const os::UniqueFd& file) = 0;
  virtual void handle_tap_closed(const uabi::CloseTap& tap) = 0;
  virtual void handle_group(const uabi::GroupMembers& group) = 0;
  /// The oldest join that was not answered yet, is.
  virtual void handle_group_joined() = 0;
  /// A message about objects that several processes share (host/foreign); others are nobody's.
  virtual void handle_shared_object(const uabi::Message& message) = 0;
  /// On the control thread, before it waits: what is to be reported to the daemon now is posted.
  /// Returns when it wants to be called again at the latest; wake() makes it sooner.
  virtual Instant report_due() { return Instant::never(); }
  /// It has ended: the last call.
  virtual void handle_daemon_gone() = 0;
};

/// The connection of a process to its daemon: attaches, queues what is to be sent, hears what comes
/// on a thread of its own, and knows when the daemon is gone and what the program is told of that.
/// Owns its locks; any thread.
class DaemonConnection final : public DaemonChannel {
 public:
  /// Policy: the daemon answers within microseconds; this much only if the machine is in trouble.
  static constexpr Duration kWaitLimit = Duration::seconds(10);

  DaemonConnection(DaemonHandler& handler, ProcessEvents& events);
  ~DaemonConnection() override;

  /// What the daemon gives a process first.
  struct Attached {
    uabi::Welcome welcome;
    std::vector<os::UniqueFd> descriptors;
  };
  /// Asks to be let in as a process of `host` on the fabric of that name. Once.
  [[nodiscard]] Result<Attached> attach(ControlSocket socket, const std::string& fabric,
                                        const std::string& host);
  /// Hears what there was before this process, until the daemon says that this was all.
  [[nodiscard]] Result<void> hear_initial_state();

  [[nodiscard]] uabi::ProcessAddress self() const override { return self_; }
  using DaemonChannel::post;
  void post(uabi::Message message, os::UniqueFd descriptor) override;
  void post_and_send(uabi::Message message, os::UniqueFd descriptor) override;
  void start_daemon_events() override;
  [[nodiscard]] bool is_gone() const override { return is_gone_.load(); }
  [[nodiscard]] Error gone() const override;

  /// The control thread calls DaemonHandler::report_due() soon.
  void wake() const;

  /// Where no thread hears the daemon yet: what it has sent so far.
  void hear_pending();
  /// Whether it has said something that is not handled yet. One system call.
  [[nodiscard]] bool has_record() const;

  /// If the daemon has ended and the program was not told yet, it is now.
  void tell_if_gone();

  /// The control thread has ended when this returns.
  void stop();

 private:
  struct Outgoing {
    uabi::Message message;
    os::UniqueFd descriptor;  // if the message has one
  };

  void run();
  void queue(uabi::Message message, os::UniqueFd descriptor);
  bool send_queued();
  void dispatch(Received received);
  void report_daemon_gone();

  DaemonHandler& handler_;
  ProcessEvents& events_;
  ControlSocket socket_;
  uabi::ProcessAddress self_;
  std::string fabric_;  // its name

  std::mutex out_lock_;
  std::deque<Outgoing> out_;
  os::UniqueFd wake_;  // eventfd

  std::atomic<bool> stopping_{false};
  std::atomic<bool> is_gone_{false};
  std::atomic<bool> works_{false};  // the thread has taken a message, and is at it
  std::mutex gone_lock_;
  bool gone_is_told_{};
  std::string dismissal_;  // under gone_lock_: why the daemon sends this program away, if it does
  std::mutex thread_lock_;
  std::thread thread_;
};

}  // namespace weft::host
