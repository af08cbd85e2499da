#include "programs/srp/umad_port.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "wire/mad/mad.h"

namespace weft::programs::srp {
namespace {

constexpr int kClassVersion = 1;  // IBTA vol 1 §16.3.1
constexpr std::size_t kMethodWords = 16 / sizeof(long);

}  // namespace

Result<UmadPort> UmadPort::open(const std::string& device, std::uint8_t port) {
  const auto library = UmadLibrary::load();
  if (!library) {
    return std::unexpected(library.error());
  }
  const int opened = (*library)->open_port(device.c_str(), port);
  if (opened < 0) {
    return fail(ErrorCode::NoSuchDevice, "umad of {} port {}: {}", device, port,
                std::strerror(-opened));
  }
  UmadPort made{**library, opened};
  std::array<long, kMethodWords> methods{};
  for (const wire::MadMethod method : {wire::MadMethod::Get, wire::MadMethod::Set}) {
    methods[0] |= 1L << std::to_underlying(method);
  }
  made.agent_ = (*library)->register_agent(opened, static_cast<int>(wire::ManagementClass::DevMgt),
                                           kClassVersion, 0, methods.data());
  if (made.agent_ < 0) {
    return fail(ErrorCode::Busy, "{} port {}: another program answers device management: {}",
                device, port, std::strerror(-made.agent_));
  }
  made.buffer_.resize((*library)->size() + wire::kMadBytes);
  return made;
}

UmadPort::UmadPort(UmadPort&& other) noexcept
    : library_(other.library_),
      port_(std::exchange(other.port_, -1)),
      agent_(other.agent_),
      buffer_(std::move(other.buffer_)) {}

UmadPort::~UmadPort() {
  if (port_ >= 0) {
    library_.close_port(port_);
  }
}

int UmadPort::fd() const { return library_.get_fd(port_); }

Result<std::optional<wire::DevMgtMad>> UmadPort::receive() {
  for (;;) {
    if (library_.poll(port_, 0) == -ETIMEDOUT) {
      return std::nullopt;
    }
    int length = wire::kMadBytes;
    const int agent = library_.recv(port_, buffer_.data(), &length, 0);
    if (agent < 0 && agent != -ENOSPC) {
      return fail(ErrorCode::Io, "the umad port is closed: {}", std::strerror(-agent));
    }
    // Longer than a MAD, or an answer of ours that came back: nothing to be answered.
    if (agent == agent_ && library_.status(buffer_.data()) == 0 &&
        length >= static_cast<int>(wire::kMadBytes)) {
      return wire::unpack<wire::DevMgtMad>(
          ByteSpan{buffer_}.subspan(library_.size()).first<wire::kMadBytes>());
    }
  }
}

void UmadPort::answer(const wire::DevMgtMad& response) {
  copy_bytes(std::span{buffer_}.subspan(library_.size()), wire::pack(response));
  library_.send(port_, agent_, buffer_.data(), wire::kMadBytes, 0, 0);
}

}  // namespace weft::programs::srp
