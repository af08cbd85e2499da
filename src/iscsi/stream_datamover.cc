#include "iscsi/stream_datamover.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "wire/iscsi/digest.h"

namespace weft::iscsi {

using wire::iscsi::BasicHeader;
using wire::iscsi::Digest;
using wire::iscsi::kHeaderBytes;
using wire::iscsi::PduSize;

std::array<ByteSpan, StreamDatamover::Item::kPieces> StreamDatamover::Item::pieces() const {
  return {ByteSpan{pdu.header()}, pdu.additional_headers(),
          ByteSpan{header_digest}.first(header_digest_bytes), pdu.data(),
          ByteSpan{tail}.first(tail_bytes)};
}

std::size_t StreamDatamover::Item::total() const { return total_bytes(pieces()); }

void StreamDatamover::enqueue(OutgoingPdu pdu) {
  if (ended_) {
    return;
  }
  const PduSize size = wire::iscsi::pdu_size(pdu.basic_header(), header_digest_, data_digest_);
  Item item{.pdu = std::move(pdu)};
  WEFT_ASSERT(item.pdu.additional_headers().size() == size.additional_headers,
              "the header says how long additional headers are");
  if (size.header_digest != 0) {
    Digest digest;
    digest.add(item.pdu.header());
    digest.add(item.pdu.additional_headers());
    item.header_digest = digest.bytes();
    item.header_digest_bytes = size.header_digest;
  }
  item.tail_bytes = size.padding + size.data_digest;
  if (size.data_digest != 0) {  // over data and padding (RFC 7143 §11.2.3)
    Digest digest;
    digest.add(item.pdu.data());
    digest.add(ByteSpan{item.tail}.first(size.padding));
    copy_bytes(MutableByteSpan{item.tail}.subspan(size.padding), digest.bytes());
  }
  output_bytes_ += item.total();
  output_.push_back(std::move(item));
  if (notice_) {
    notice_();
  }
}

std::size_t StreamDatamover::gather(std::span<ByteSpan> pieces) const {
  std::size_t count = 0;
  std::size_t skip = sent_of_first_;
  for (const Item& item : output_) {
    for (ByteSpan piece : item.pieces()) {
      const std::size_t skipped = std::min(skip, piece.size());
      skip -= skipped;
      piece = piece.subspan(skipped);
      if (piece.empty()) {
        continue;
      }
      if (count == pieces.size()) {
        return count;
      }
      pieces[count++] = piece;
    }
  }
  return count;
}

void StreamDatamover::consume(std::size_t octets) {
  WEFT_ASSERT(octets <= output_bytes_, "no more is sent than was gathered");
  output_bytes_ -= octets;
  sent_of_first_ += octets;
  while (!output_.empty() && sent_of_first_ >= output_.front().total()) {
    sent_of_first_ -= output_.front().total();
    output_.pop_front();
  }
}

void StreamDatamover::enable(bool header_digest, bool data_digest, std::size_t max_receive_bytes) {
  header_digest_ = header_digest;
  data_digest_ = data_digest;
  max_receive_bytes_ = max_receive_bytes;
}

void StreamDatamover::terminate(Ending ending, std::string_view reason) {
  if (!ended_) {
    ended_ = true;
    reason_ = reason;
  }
  if (ending == Ending::AtOnce) {
    output_.clear();
    output_bytes_ = 0;
    sent_of_first_ = 0;
  }
  if (notice_) {
    notice_();
  }
}

void StreamDatamover::receive(ByteSpan octets, Instant now) {
  if (partial_.empty()) {
    while (!ended_ && take_pdu(octets, now)) {
    }
    partial_.assign(octets.begin(), octets.end());
    return;
  }
  partial_.insert(partial_.end(), octets.begin(), octets.end());
  ByteSpan rest = partial_;
  while (!ended_ && take_pdu(rest, now)) {
  }
  partial_.erase(partial_.begin(), partial_.end() - static_cast<std::ptrdiff_t>(rest.size()));
}

bool StreamDatamover::take_pdu(ByteSpan& octets, Instant now) {
  if (octets.size() < kHeaderBytes) {
    return false;
  }
  const auto header = octets.first<kHeaderBytes>();
  const PduSize size =
      wire::iscsi::pdu_size(wire::unpack<BasicHeader>(header), header_digest_, data_digest_);
  if (octets.size() < size.data_offset()) {
    return false;
  }
  const ByteSpan additional = octets.subspan(kHeaderBytes, size.additional_headers);
  if (size.header_digest != 0) {
    Digest digest;
    digest.add(header);
    digest.add(additional);
    if (!std::ranges::equal(digest.bytes(), octets.subspan(kHeaderBytes + size.additional_headers,
                                                           size.header_digest))) {
      // Its length may be wrong too, so nobody knows where the next one begins (RFC 7143 §7.7).
      terminate(Ending::AtOnce, "a header digest is wrong");
      return false;
    }
  }
  if (size.data > max_receive_bytes_) {
    terminate(Ending::AtOnce, "a data segment is longer than MaxRecvDataSegmentLength");
    return false;
  }
  if (octets.size() < size.total()) {
    return false;
  }
  const ByteSpan data = octets.subspan(size.data_offset(), size.data);
  bool is_damaged = false;
  if (size.data_digest != 0) {
    Digest digest;
    digest.add(octets.subspan(size.data_offset(), size.data + size.padding));
    is_damaged = !std::ranges::equal(
        digest.bytes(),
        octets.subspan(size.data_offset() + size.data + size.padding, size.data_digest));
  }
  client_->handle_pdu({.header = header,
                       .additional_headers = additional,
                       .data = data,
                       .data_is_damaged = is_damaged},
                      now);
  octets = octets.subspan(size.total());
  return true;
}

}  // namespace weft::iscsi
