#include "programs/iscsi/portal.h"

#include <asio/buffer.hpp>
#include <system_error>
#include <utility>

#include "os/clock.h"
#include "programs/iscsi/transport.h"

namespace weft::programs::iscsi {

using asio::ip::tcp;

void Connections::add(tcp::socket socket) {
  const auto connection = std::make_shared<TcpConnection>(*this, std::move(socket));
  all_.insert(connection);
  connection->start();
  flush();
}

void Connections::flush() {
  while (!ready_.empty()) {
    for (const auto& connection : std::exchange(ready_, {})) {
      connection->flush();
    }
  }
}

TcpConnection::TcpConnection(Connections& connections, tcp::socket socket)
    : connections_(connections), socket_(std::move(socket)), input_(kInputBytes) {}

void TcpConnection::start() {
  std::error_code error;
  socket_.set_option(tcp::no_delay{true}, error);
  socket_.non_blocking(true, error);
  datamover_.set_output_notice([this] {
    if (!std::exchange(is_ready_, true)) {
      connections_.ready_.push_back(shared_from_this());
    }
  });
  client_ = connections_.server_.accept(datamover_, os::now());
  if (client_ == nullptr) {
    lose("there are too many connections");
    return;
  }
  datamover_.set_client(*client_);
  read();
}

void TcpConnection::read() {
  if (reads_ || client_ == nullptr || datamover_.is_ended() ||
      datamover_.output_bytes() > kMaxOutputBytes) {
    return;
  }
  reads_ = true;
  socket_.async_read_some(
      asio::buffer(input_),
      [self = shared_from_this()](const std::error_code& error, std::size_t count) {
        self->reads_ = false;
        if (self->client_ == nullptr) {
          return;
        }
        if (error) {
          self->lose(error.message());
        } else {
          self->datamover_.receive(ByteSpan{self->input_}.first(count), os::now());
          self->read();
        }
        self->connections_.flush();
      });
}

void TcpConnection::flush() {
  is_ready_ = false;
  if (client_ == nullptr || awaits_room_) {
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
      await_room();
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
  } else {
    read();
  }
}

void TcpConnection::await_room() {
  awaits_room_ = true;
  socket_.async_wait(tcp::socket::wait_write,
                     [self = shared_from_this()](const std::error_code& /*error*/) {
                       self->awaits_room_ = false;
                       self->flush();
                       self->connections_.flush();
                     });
}

void TcpConnection::lose(const std::string& reason) {
  const auto self = shared_from_this();
  std::error_code error;
  socket_.shutdown(tcp::socket::shutdown_both, error);
  socket_.close(error);
  datamover_.set_output_notice({});
  if (weft::iscsi::DatamoverClient* const client = std::exchange(client_, nullptr)) {
    client->handle_lost(reason, os::now());
  }
  connections_.all_.erase(self);
}

Result<std::unique_ptr<Portal>> Portal::listen(asio::io_context& loop, const std::string& address,
                                               Connections& connections) {
  const auto parsed = parse_host_and_port(address);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  std::error_code error;
  const auto ip = asio::ip::make_address(parsed->host, error);
  if (error) {
    return fail(ErrorCode::InvalidArgument, "'{}' is no IP address", parsed->host);
  }
  tcp::acceptor acceptor{loop};
  const tcp::endpoint endpoint{ip, parsed->port};
  acceptor.open(endpoint.protocol(), error);
  if (!error) {
    acceptor.set_option(tcp::acceptor::reuse_address{true}, error);
    acceptor.bind(endpoint, error);
  }
  if (!error) {
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  if (error) {
    return fail(ErrorCode::AddressInUse, "{}: {}", address, error.message());
  }
  const std::string bound = fmt::format("{}:{}", address.substr(0, address.rfind(':')),
                                        acceptor.local_endpoint(error).port());
  std::unique_ptr<Portal> portal{
      new Portal{std::move(acceptor), bound, connections}
  };
  portal->accept();
  return portal;
}

void Portal::accept() {
  acceptor_.async_accept([this](const std::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) {
      return;
    }
    if (!error) {
      connections_.add(std::move(socket));
    }
    accept();
  });
}

void Portal::close() {
  std::error_code error;
  acceptor_.close(error);
}

}  // namespace weft::programs::iscsi
