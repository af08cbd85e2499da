#include "programs/srp/umad_port.h"

#include <dlfcn.h>
#include <infiniband/umad.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "wire/mad/mad.h"

namespace weft::programs::srp {
namespace {

constexpr const char* kLibrary = "libibumad.so.3";
constexpr int kClassVersion = 1;  // IBTA vol 1 §16.3.1
constexpr std::size_t kMethodWords = 16 / sizeof(long);

/// What is used of the library, which is loaded once.
struct Library {
  decltype(&umad_init) init{};
  decltype(&umad_open_port) open_port{};
  decltype(&umad_close_port) close_port{};
  decltype(&umad_register) register_agent{};
  decltype(&umad_get_fd) get_fd{};
  decltype(&umad_size) size{};
  decltype(&umad_poll) poll{};
  decltype(&umad_recv) recv{};
  decltype(&umad_send) send{};
  decltype(&umad_status) status{};
  bool is_whole{};

  Library() {
    void* const handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never closed
    is_whole =
        handle != nullptr && take(handle, init, "umad_init") &&
        take(handle, open_port, "umad_open_port") && take(handle, close_port, "umad_close_port") &&
        take(handle, register_agent, "umad_register") && take(handle, get_fd, "umad_get_fd") &&
        take(handle, size, "umad_size") && take(handle, poll, "umad_poll") &&
        take(handle, recv, "umad_recv") && take(handle, send, "umad_send") &&
        take(handle, status, "umad_status") && init() >= 0;
  }

  template <class Function>
  [[nodiscard]] static bool take(void* handle, Function& to, const char* symbol) {
    void* const found = dlsym(handle, symbol);
    to = std::bit_cast<Function>(found);
    return found != nullptr;
  }
};

[[nodiscard]] const Library& library() {
  static const Library loaded;
  return loaded;
}

}  // namespace

Result<UmadPort> UmadPort::open(const std::string& device, std::uint8_t port) {
  if (!library().is_whole) {
    return fail(ErrorCode::NotFound, "{} cannot be loaded; install it, or run under weft exec",
                kLibrary);
  }
  const int opened = library().open_port(device.c_str(), port);
  if (opened < 0) {
    return fail(ErrorCode::NoSuchDevice, "umad of {} port {}: {}", device, port,
                std::strerror(-opened));
  }
  UmadPort made{opened};
  std::array<long, kMethodWords> methods{};
  for (const wire::MadMethod method : {wire::MadMethod::Get, wire::MadMethod::Set}) {
    methods[0] |= 1L << std::to_underlying(method);
  }
  made.agent_ = library().register_agent(opened, static_cast<int>(wire::ManagementClass::DevMgt),
                                         kClassVersion, 0, methods.data());
  if (made.agent_ < 0) {
    return fail(ErrorCode::Busy, "{} port {}: another program answers device management: {}",
                device, port, std::strerror(-made.agent_));
  }
  made.buffer_.resize(library().size() + wire::kMadBytes);
  return made;
}

UmadPort::UmadPort(UmadPort&& other) noexcept
    : port_(std::exchange(other.port_, -1)),
      agent_(other.agent_),
      buffer_(std::move(other.buffer_)) {}

UmadPort::~UmadPort() {
  if (port_ >= 0) {
    library().close_port(port_);
  }
}

int UmadPort::fd() const { return library().get_fd(port_); }

Result<std::optional<wire::DevMgtMad>> UmadPort::receive() {
  for (;;) {
    if (library().poll(port_, 0) == -ETIMEDOUT) {
      return std::nullopt;
    }
    int length = wire::kMadBytes;
    const int agent = library().recv(port_, buffer_.data(), &length, 0);
    if (agent < 0 && agent != -ENOSPC) {
      return fail(ErrorCode::Io, "the umad port is closed: {}", std::strerror(-agent));
    }
    // Longer than a MAD, or an answer of ours that came back: nothing to be answered.
    if (agent == agent_ && library().status(buffer_.data()) == 0 &&
        length >= static_cast<int>(wire::kMadBytes)) {
      return wire::unpack<wire::DevMgtMad>(
          ByteSpan{buffer_}.subspan(library().size()).first<wire::kMadBytes>());
    }
  }
}

void UmadPort::answer(const wire::DevMgtMad& response) {
  copy_bytes(std::span{buffer_}.subspan(library().size()), wire::pack(response));
  library().send(port_, agent_, buffer_.data(), wire::kMadBytes, 0, 0);
}

}  // namespace weft::programs::srp
