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
/// its own that others have (ibv_import_device(3)): messages to and from the process that opened
/// the device. Owns its locks; any thread, handle() is the control thread's.
class Imports {
 public:
  Imports(DaemonChannel& daemon, ProcessEvents& events,
          std::chrono::milliseconds wait_limit = kAnswerPatience)
      : daemon_(daemon), events_(events), devices_(wait_limit), objects_(wait_limit) {}

  /// Others may import the open device that has this command descriptor; and not any more.
  void share_device(std::uint32_t hca, int command) { tell_of_device(hca, command, false); }
  void unshare_device(std::uint32_t hca, int command) { tell_of_device(hca, command, true); }

  /// Asks the daemon whose device has that command descriptor, for a while if nobody has shared it
  /// yet. NotFound: nobody did.
  [[nodiscard]] Result<ImportedDevice> import_device(int command);
  void leave_device(const ImportedDevice& device);

  /// Asks the owner of the device, and waits.
  [[nodiscard]] Result<uabi::ObjectAnswer> ask_for_object(const ImportedDevice& device,
                                                          uabi::ImportVerb verb,
                                                          std::uint32_t handle);

  /// Foreign: an answer counts from who was asked only.
  void handle(const uabi::DeviceImported& answer);
  void handle(const uabi::ObjectRequest& question);
  void handle(const uabi::ObjectAnswer& answer);
  void handle(const uabi::DeviceGone& left);

  /// The daemon has ended: who waits for an answer waits no longer.
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
