# A boot sector that reads the 64 sectors after it by BIOS, tells the sum of their octets on the first serial port, writes what it told to
# sector 100, and ends QEMU by its isa-debug-exit device. tests/clients/srp.py boots it from a disk that weft san-boot has handed over.
        .code16
        .globl _start
_start: xorw %ax, %ax
        movw %ax, %ds
        movw %ax, %es
        movw %ax, %ss
        movw $0x7c00, %sp
        movb %dl, drive
        movb $0x42, %ah                 # extended read (int 13h)
        movw $packet, %si
        int $0x13
        jc failed
        movw $0x1000, %ax
        movw %ax, %ds
        xorw %si, %si
        xorw %bx, %bx
        movw $0x8000, %cx               # 64 sectors of 512 octets
sum:    lodsb
        xorb %ah, %ah
        addw %ax, %bx
        loop sum
        xorw %ax, %ax
        movw %ax, %ds
        movw $4, %cx
        movw $digits, %di
digit:  rolw $4, %bx
        movb %bl, %al
        andb $0x0f, %al
        addb $'0', %al
        cmpb $'9', %al
        jbe put
        addb $39, %al                   # to 'a'
put:    stosb
        loop digit
        movw $1, count                  # one sector, from where the digits are
        movw $text, offset
        movw $0, segment
        movw $100, block
        movb drive, %dl
        movw $0x4300, %ax               # extended write
        movw $packet, %si
        int $0x13
        jc failed
        movw $text, %si
        call say
        jmp end
failed: movw $broken, %si
        call say
end:    movb $0x31, %al
        outb %al, $0xf4
        hlt
        jmp end
say:    lodsb
        testb %al, %al
        jz said
        movb %al, %ah
full:   movw $0x3fd, %dx
        inb %dx, %al
        testb $0x20, %al
        jz full
        movb %ah, %al
        movw $0x3f8, %dx
        outb %al, %dx
        jmp say
said:   ret
drive:  .byte 0
        .balign 4
packet: .byte 16, 0
count:  .word 64
offset: .word 0
segment: .word 0x1000
block:  .quad 1
broken: .asciz "the BIOS refuses\n"
text:   .ascii "sum "
digits: .ascii "____"
        .asciz "\n"
        .org 510
        .word 0xaa55
