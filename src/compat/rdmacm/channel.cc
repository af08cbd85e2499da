#include "compat/rdmacm/channel.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>

#include "base/time.h"
#include "host/process.h"
#include "os/run_directory.h"

namespace weft::compat {
namespace {

/// Policy: the daemon answers within microseconds; it takes longer only if the machine is in
/// trouble.
constexpr Duration kWaitLimit = Duration::seconds(10);

/// A thread cancelled between a request and its response would leave the response to the next
/// request.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_{};
};

/// For a channel that the program has destroyed: Linux, too, lets a thread sleep in read() on a
/// file that another thread has closed. Programs have such threads when they exit, and an error
/// would disturb the exit.
[[noreturn]] void sleep_forever() {
  while (true) {
    pause();
  }
}

std::mutex channels_lock;
auto& channels = *new std::map<const rdma_event_channel*, std::shared_ptr<Channel>>;

[[nodiscard]] std::string loopback_of_environment() {
  const char* const host = std::getenv("WEFT_LOOPBACK");
  return host == nullptr ? "" : host;
}

/// The daemon's response to the first message, or why there is no channel.
[[nodiscard]] Result<host::Received> introduce(const host::ControlSocket& control,
                                               const std::string& host) {
  const uabi::OpenRdmaCm question{
      .version = uabi::kVersion, .host = host, .loopback = loopback_of_environment()};
  if (const auto sent = control.send(question); !sent) {
    return std::unexpected(sent.error());
  }
  auto received = control.receive(kWaitLimit);
  if (!received || received->message.holds<uabi::RdmaCmOpened>()) {
    return received;
  }
  if (const auto* const refused = received->message.get_if<uabi::Refused>()) {
    return fail(ErrorCode::NoSuchDevice, "{}", refused->reason);
  }
  return fail(ErrorCode::Io, "the fabric daemon has no connections for programs");
}

}  // namespace

Channel::Channel(host::ControlSocket control, os::UniqueFd events, std::uint32_t number)
    : control_(std::move(control)), events_(std::move(events)), number_(number) {
  front_.fd = events_.get();
}

std::optional<uabi::Message> Channel::exchange(const uabi::Message& question) {
  const NoCancellation whole;
  const std::lock_guard guard{asking_};
  if (has_ended_ || is_broken_) {
    refuse(has_ended_ ? EBADF : EIO, has_ended_
                                         ? "the event channel was destroyed"
                                         : "the fabric daemon is gone since an earlier call");
    return std::nullopt;
  }
  const auto sent = control_.send(question);
  auto received =
      sent ? control_.receive(kWaitLimit) : Result<host::Received>{std::unexpected(sent.error())};
  if (received) {
    return std::move(received->message);
  }
  is_broken_ = true;  // a late response would be taken for that of the next request
  complain("no connections any more, the fabric daemon is gone: " + received.error().reason);
  errno = EIO;
  return std::nullopt;
}

bool Channel::has_ended() {
  const std::lock_guard guard{asking_};
  return has_ended_;
}

/// Uses recv(): a signal always interrupts poll(), but recv() only as the program wishes
/// (SA_RESTART).
bool Channel::wait_for_event() {
  char octet{};
  const ssize_t count = recv(front_.fd, &octet, sizeof octet, MSG_PEEK);
  if (count > 0) {
    return true;
  }
  if (count < 0 && errno != ECONNRESET && errno != EBADF) {
    return false;  // EAGAIN, EINTR
  }
  if (has_ended()) {
    sleep_forever();
  }
  return true;  // the request will report the error
}

std::optional<uabi::RdmaCmEvent> Channel::next_event() {
  while (wait_for_event()) {
    auto answer = exchange(uabi::GetRdmaCmEvent{});
    if (!answer) {
      if (has_ended()) {
        sleep_forever();
      }
      return std::nullopt;
    }
    if (auto* const event = answer->get_if<uabi::RdmaCmEvent>()) {
      return std::move(*event);
    }
    if (!answer->holds<uabi::NoRdmaCmEvent>()) {
      refuse(EIO, "the fabric daemon answered something else than an event");
      return std::nullopt;
    }
  }
  return std::nullopt;
}

void Channel::end() {
  const std::lock_guard guard{asking_};
  has_ended_ = true;
  control_.close();
  events_.reset();  // frees the number, as close() does
}

std::shared_ptr<Channel> open_channel() {
  const host::ProcessOptions options = host::options_of_environment();
  auto control = host::ControlSocket::connect(os::control_path(options.run, options.fabric));
  auto opened = control ? introduce(*control, options.host)
                        : Result<host::Received>{std::unexpected(control.error())};
  if (!opened) {
    complain(opened.error().reason);
    errno = ENODEV;
    return nullptr;
  }
  auto channel =
      std::make_shared<Channel>(std::move(*control), std::move(opened->descriptors.front()),
                                opened->message.get<uabi::RdmaCmOpened>().channel);
  const std::lock_guard guard{channels_lock};
  channels[channel->front()] = channel;
  return channel;
}

std::shared_ptr<Channel> channel_of(const rdma_event_channel* front) {
  const std::lock_guard guard{channels_lock};
  const auto found = channels.find(front);
  if (found == channels.end()) {
    refuse(EBADF, "the event channel is none of this library, or was destroyed");
    return nullptr;
  }
  return found->second;
}

void close_channel(const rdma_event_channel* front) {
  const auto channel = channel_of(front);
  if (channel == nullptr) {
    return;
  }
  channel->end();
  const std::lock_guard guard{channels_lock};
  channels.erase(front);
}

}  // namespace weft::compat

using namespace weft::compat;

extern "C" {

WEFT_EXPORT rdma_event_channel* rdma_create_event_channel() {
  const auto channel = open_channel();
  return channel == nullptr ? nullptr : channel->front();
}

WEFT_EXPORT void rdma_destroy_event_channel(rdma_event_channel* channel) { close_channel(channel); }

}  // extern "C"
