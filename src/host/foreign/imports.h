#pragma once

#include <chrono>
#include <cstdint>

#include "base/result.h"
#include "host/foreign/daemon_channel.h"
#include "host/foreign/pending_requests.h"
#include "host/process.h"
#include "uabi/messages.h"

namespace weft::host {

/// Devices, PDs and regions that this process has imported from others of its host, and those of
/// its own that others have imported (ibv_import_device(3)): exchanges messages with the process
/// that opened the device. Any thread, except that handle() is for the control thread; it has its
/// own locks.
class Imports {
 public:
  Imports(DaemonChannel& daemon, ProcessEvents& events,
          std::chrono::milliseconds wait_limit = kAnswerPatience)
      : daemon_(daemon), events_(events), devices_(wait_limit), objects_(wait_limit) {}

  /// Allows others to import the open device with this command descriptor, and withdraws that.
  void share_device(std::uint32_t hca, int command) { tell_of_device(hca, command, false); }
  void unshare_device(std::uint32_t hca, int command) { tell_of_device(hca, command, true); }

  /// Queries the daemon for the owner of the device with that command descriptor, repeatedly for a
  /// short time in case it is just being shared. NotFound if nobody shares it.
  [[nodiscard]] Result<ImportedDevice> import_device(int command);
  /// Gives up an imported device; its owner is notified.
  void leave_device(const ImportedDevice& device);

  /// Sends a request to the owner of the device and waits for the response.
  [[nodiscard]] Result<uabi::ObjectAnswer> ask_for_object(const ImportedDevice& device,
                                                          uabi::ImportVerb verb,
                                                          std::uint32_t handle);

  /// Messages of other processes, untrusted: a response is accepted only from the process that was
  /// asked.
  void handle(const uabi::DeviceImported& answer);
  void handle(const uabi::ObjectRequest& question);
  void handle(const uabi::ObjectAnswer& answer);
  void handle(const uabi::DeviceGone& left);

  /// The daemon has ended: wakes all threads that wait for a response.
  void handle_daemon_gone() {
    devices_.reconsider();
    objects_.reconsider();
  }

 private:
  struct Nothing {};
  struct About {
    uabi::ProcessAddress owner;
    std::uint32_t device{};
  };
  void tell_of_device(std::uint32_t hca, int command, bool is_over);
  [[nodiscard]] Result<uabi::DeviceImported> request_device(int command);

  DaemonChannel& daemon_;
  ProcessEvents& events_;
  Questions<uabi::DeviceImported, Nothing> devices_;
  Questions<uabi::ObjectAnswer, About> objects_;
};

}  // namespace weft::host
