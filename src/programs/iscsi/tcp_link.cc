#include "programs/iscsi/tcp_link.h"

#include <array>
#include <asio/buffer.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "os/clock.h"

namespace weft::programs::iscsi {

using asio::ip::tcp;

void TcpStream::connect(const std::string& address, weft::iscsi::DatamoverClient& client,
                        Link::Connected connected, std::function<void()> settled) {
  client_ = &client;
  connected_ = std::move(connected);
  settled_ = std::move(settled);
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  const std::string port = colon == address.npos ? "3260" : address.substr(colon + 1);
  resolver_.async_resolve(
      host, port,
      [self = shared_from_this(), address](const std::error_code& error,
                                           const tcp::resolver::results_type& found) {
        if (error) {
          self->tell(nullptr, address + ": " + error.message());
          return;
        }
        self->found_ = found;
        self->try_next(self->found_.begin(), self->found_.end(), address + ": no address");
      });
}

void TcpStream::try_next(tcp::resolver::results_type::iterator next,
                         tcp::resolver::results_type::iterator end, const std::string& reason) {
  if (next == end) {
    tell(nullptr, reason);
    return;
  }
  std::error_code ignored;
  socket_.close(ignored);
  const tcp::endpoint endpoint = next->endpoint();
  ++next;
  socket_.async_connect(
      endpoint, [self = shared_from_this(), next, end, endpoint](const std::error_code& error) {
        if (self->client_ == nullptr) {
          return;
        }
        if (error) {
          self->try_next(next, end,
                         endpoint.address().to_string() + ":" + std::to_string(endpoint.port()) +
                             ": " + error.message());
        } else {
          self->begin();
        }
      });
}

void TcpStream::begin() {
  std::error_code error;
  socket_.set_option(tcp::no_delay{true}, error);
  socket_.non_blocking(true, error);
  datamover_.set_client(*client_);
  read();
  tell(&datamover_, {});
  flush();
}

void TcpStream::tell(weft::iscsi::Datamover* datamover, const std::string& reason) {
  if (client_ == nullptr) {
    return;
  }
  if (datamover == nullptr) {
    client_ = nullptr;
  }
  if (const auto connected = std::exchange(connected_, {})) {
    connected(datamover, reason);
  }
  settled_();
}

void TcpStream::abandon() {
  client_ = nullptr;
  connected_ = {};
  resolver_.cancel();
  std::error_code error;
  socket_.close(error);
}

void TcpStream::read() {
  socket_.async_read_some(
      asio::buffer(input_),
      [self = shared_from_this()](const std::error_code& error, std::size_t count) {
        if (self->client_ == nullptr) {
          return;
        }
        if (error) {
          self->lose(error == asio::error::eof ? "the target has closed the connection"
                                               : error.message());
        } else {
          self->datamover_.receive(ByteSpan{self->input_}.first(count), os::now());
          self->read();
          self->flush();
        }
        self->settled_();
      });
}

void TcpStream::flush() {
  if (client_ == nullptr || awaits_room_ || connected_) {
    return;
  }
  std::array<ByteSpan, 64> pieces;  // policy: of one system call
  while (const std::size_t count = datamover_.gather(pieces)) {
    std::vector<asio::const_buffer> buffers;
    for (const ByteSpan piece : std::span{pieces}.first(count)) {
      buffers.emplace_back(piece.data(), piece.size());
    }
    std::error_code error;
    const std::size_t sent = socket_.write_some(buffers, error);
    if (error == asio::error::would_block) {
      awaits_room_ = true;
      socket_.async_wait(tcp::socket::wait_write,
                         [self = shared_from_this()](const std::error_code& /*error*/) {
                           self->awaits_room_ = false;
                           self->flush();
                           self->settled_();
                         });
      return;
    }
    if (error) {
      lose(error.message());
      return;
    }
    datamover_.consume(sent);
  }
  if (datamover_.is_ended()) {
    lose(datamover_.reason());
  }
}

void TcpStream::lose(const std::string& reason) {
  std::error_code error;
  socket_.shutdown(tcp::socket::shutdown_both, error);
  socket_.close(error);
  if (weft::iscsi::DatamoverClient* const client = std::exchange(client_, nullptr)) {
    client->handle_lost(reason, os::now());
  }
}

namespace {

class TcpLink final : public Link {
 public:
  explicit TcpLink(asio::io_context& loop) : loop_(loop) {}
  ~TcpLink() override {
    if (stream_ != nullptr) {
      stream_->abandon();
    }
  }

  void connect(const std::string& address, weft::iscsi::DatamoverClient& client,
               Connected connected, std::function<void()> settled) override {
    stream_ = std::make_shared<TcpStream>(loop_);
    stream_->connect(address, client, std::move(connected), std::move(settled));
  }
  void abandon() override { std::exchange(stream_, {})->abandon(); }
  void flush() override {
    if (stream_ != nullptr) {
      stream_->flush();
    }
  }

 private:
  asio::io_context& loop_;
  std::shared_ptr<TcpStream> stream_;
};

}  // namespace

LinkKind tcp_links() {
  return {.make = [](asio::io_context& loop) -> std::unique_ptr<Link> {
    return std::make_unique<TcpLink>(loop);
  }};
}

}  // namespace weft::programs::iscsi
